"""The guide of the Python package as it stands: its commands are run, its pieces of Python are those of the programs, and what these
print is the same in one process and under torchrun. Skipped without PyTorch and transformers."""
import os
import re
import shlex
import shutil
import subprocess
import sys

import programs
from python_package import FOLDER, batches, largest_difference, loss, made

try:
    import tokenizers
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

import torch

GUIDE = programs.SOURCE / "tools" / "python" / "guide"
SECONDS = 400
LOSS = re.compile(r"^step (\d+): loss (\d+\.\d+)", re.MULTILINE)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDE / page).read_text(), re.MULTILINE | re.DOTALL)


def bare(text):
    """Lines without indentation, of which a page may have less."""
    return "\n".join(line.strip() for line in text.strip("\n").splitlines())


def commands(page):
    """The command lines of a page that begin with python or torchrun."""
    lines = [line.split("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith(("python ", "torchrun "))]


def losses(printed):
    return {int(step): float(value) for step, value in LOSS.findall(printed)}


class Guide(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.folder = self.scratch / "guide"
        shutil.copytree(GUIDE, self.folder)

    def run_line(self, line):
        """What a command of a page prints, in a copy of the guide."""
        program, *arguments = shlex.split(line)
        command = [sys.executable, *(["-m", "torch.distributed.run"] if program == "torchrun" else []), *arguments]
        surroundings = {**os.environ, "PYTHONPATH": str(FOLDER), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=self.folder, env=surroundings, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def printed(self, page):
        """What the commands of a page print, by command. Two programs of one page follow each other in its folder."""
        return {line: self.run_line(line) for line in commands(page)}

    def assert_same_losses(self, plain, launched):
        """Equal but for sums of float32 in another order, since each run measures, and may choose other micro-batches."""
        own, others = losses(plain), losses(launched)
        self.assertGreater(len(own), 2, plain)
        self.assertEqual(list(own), list(others), launched)
        for step, value in own.items():
            self.assertLess(abs(value - others[step]), 1e-3 + 0.02 * value, f"step {step}\n{plain}\n{launched}")

    def test_pieces_are_those_of_the_programs(self):
        for page, names in [("tutorial.md", ["tutorial.py", "plan.py"]), ("transformers.md", ["finetune.py"])]:
            text = "\n".join(bare((GUIDE / name).read_text()) for name in names)
            pieces = blocks(page, "python")
            self.assertGreater(len(pieces), 2, page)
            for piece in pieces:
                self.assertIn(bare(piece), text, f"{page}: in none of {names}")

    def test_example_of_the_readme(self):
        piece, = re.findall(r"^```python\n(.*?)^```$", (programs.SOURCE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        before = made()
        names = {"net": made(), "example": batches(1)[0], "loss": loss, "loader": batches(6)}
        exec(piece, names)
        names["trainer"].close()
        self.assertGreater(float(names["value"]), 0)
        self.assertGreater(largest_difference(names["net"].state_dict(), before.state_dict()), 1e-4)

    def test_tutorial(self):
        printed = self.printed("tutorial.md")
        plain, launched, planned = (printed[line] for line in
                                    ["python tutorial.py", "torchrun --standalone --nproc-per-node=2 tutorial.py", "python plan.py"])
        found = losses(plain)
        self.assertLess(found[max(found)], 0.2 * found[min(found)], plain)
        self.assert_same_losses(plain, launched)
        for output in (plain, launched):
            self.assertIn("2 stages on 2 devices", output)
            self.assertIn("resumed at step 80: <rannc.Trainer: 1 stages", output)
            right = re.search(r"in PyTorch: (\d+)% of the test points are right", output)
            self.assertGreater(int(right[1]), 90, output)
        self.assertIn("predicted step", planned)
        self.assertEqual(len(re.findall(r"^predicted step", planned, re.MULTILINE)), 3, planned)
        self.assertTrue((self.folder / "tutorial.out" / "plan.html").exists())

    def test_transformers(self):
        text = self.folder / "text.txt"
        words = (programs.SOURCE / "CONTRIBUTING.md").read_text().split()
        text.write_text("\n".join(" ".join(words[first:first + 4 + first % 13]) for first in range(0, len(words), 5)))
        write_model(self.folder / "model", text)
        printed = self.printed("transformers.md")
        (plain, launched) = printed.values()
        found = losses(plain)
        self.assertLess(found[max(found)], found[min(found)] - 0.2, plain)
        self.assert_same_losses(plain, launched)
        self.assertGreater(len(set(re.findall(r"(\d+) tokens", plain))), 1, f"all batches have one length\n{plain}")
        before, after = (self.loss_of(name, text) for name in ["model", "trained"])
        self.assertLess(after, before - 0.2)

    def loss_of(self, name, text):
        """The loss of a saved model in evaluation mode, in PyTorch."""
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / name).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder / name)
        ids = torch.tensor([tokenizer(text.read_text())["input_ids"][:64]])
        with torch.no_grad():
            return model(input_ids=ids, labels=ids).loss.item()


def write_model(folder, text):
    """A small language model with a tokenizer of the bytes and pairs of a text, as save_pretrained writes them."""
    pairs = tokenizers.Tokenizer(tokenizers.models.BPE())
    pairs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = tokenizers.decoders.ByteLevel()
    pairs.train([str(text)], tokenizers.trainers.BpeTrainer(
        vocab_size=512, special_tokens=["<end>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    transformers.PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token="<end>").save_pretrained(folder)
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=512, n_positions=128, n_embd=64, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)


if __name__ == "__main__":
    programs.main()
