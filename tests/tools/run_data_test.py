"""Sources of samples of a training run: token files, validation, and the log of its steps."""
import array
import json
import random
import re
import struct

import programs
import run_folder

DIAGNOSTICS, USAGE = 1, 2
MLP = programs.DATA / "small_mlp"
CONTEXT, STEPS = 8, 7
VOCABULARY = 256


def losses(folder):
    return [line.split()[1] for line in (folder / "losses.txt").read_text().splitlines()]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class RunDataTest(programs.ProgramTest):
    in_process = programs.Resident.PROGRAMS

    def bundle(self):
        model, bundle = self.scratch / "gpt.onnx", self.scratch / "gpt.rannc"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 2, "--width", 16, "--heads", 2, "--context", CONTEXT)
        self.succeed("rannc-compile", model, "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 4, "--micro-batches", 2,
                     "--costs", "analytic", "--no-refine", "--loss", "cross_entropy(output=logits,labels=targets)")
        return bundle

    def write(self, name, count, seed, kind="H", most=VOCABULARY):
        path = self.scratch / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(array.array(kind, random.Random(seed).choices(range(most), k=count)).tobytes())
        return path

    def train(self, bundle, name, *flags, steps=STEPS):
        done = self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--steps", steps, "--clip-norm", 1, *flags)
        return losses(self.scratch / name), done.stdout


class Training(RunDataTest):
    def setUp(self):
        super().setUp()
        self.path = self.bundle()
        self.write("shards/b.bin", 5 * CONTEXT, 1)
        self.write("shards/a.bin", 6 * CONTEXT + 1, 2)
        self.held_out = self.write("held-out.bin", 5 * CONTEXT + 1, 3)
        self.tokens = ["--tokens", self.scratch / "shards"]
        self.validation = ["--validate", self.held_out, "--validate-every", 2]

    def test_validations_and_resumptions_change_no_step(self):
        plain, said = self.train(self.path, "plain", *self.tokens)
        self.assertIn("10 samples of 8 tokens (89 uint16 tokens in 2 files), shuffled", said)
        self.assertEqual(len(set(plain)), STEPS)
        log = self.scratch / "steps.jsonl"
        watched, said = self.train(self.path, "watched", *self.tokens, *self.validation, "--log", log)
        self.assertEqual(watched, plain)
        self.assertIn("validating every 2 steps on 5 samples of 8 tokens", said)
        self.judge_log(lines(log), said, watched)
        run_folder.judge_trace(self, self.scratch / "watched" / "trace.json", STEPS, 2)  # evaluations do not occur in it
        report = run_folder.Report(self.scratch / "watched" / "report.html")
        titles = [title for title in report.sections["Loss"].drawings[0].titles if title.startswith("validation")]
        self.assertEqual([title.split(":")[0] for title in titles], [f"validation after step {step}" for step in (2, 4, 6, 7)])
        whole, log = lines(log), self.scratch / "parts.jsonl"
        self.train(self.path, "parts", *self.tokens, *self.validation, "--log", log, steps=4)
        with log.open("a") as more:  # of steps that no checkpoint has; the run was killed in the middle of a line
            more.write('{"step":5,"loss":1}\n{"step":6,"lo')
        resumed, said = self.train(self.path, "parts", *self.tokens, *self.validation, "--log", log, "--resume")
        self.assertEqual(resumed, plain)
        self.assertNotIn("changed", said)
        _, said = self.train(self.path, "parts", "--tokens", self.held_out, "--resume", steps=STEPS + 1)
        self.assertIn("changed: the checkpoint was trained on 10 samples of 8 tokens (89", said)
        same = ("step", "loss", "learning_rate", "gradient_norm", "validation_loss", "validation_accuracy")
        cut = [[{name: line.get(name) for name in same} for line in found] for found in (lines(log), whole)]
        # Step 4 was the last of the first part, after which it was validated anyway.
        self.assertEqual(*cut)

    def judge_log(self, found, said, watched):
        self.assertEqual([line["step"] for line in found], list(range(1, STEPS + 1)))
        self.assertEqual([line["loss"] for line in found], [float.fromhex(loss) for loss in watched])
        self.assertTrue(all(line["tokens_per_second"] > line["samples_per_second"] > 0 for line in found))
        self.assertTrue(all(line["gradient_norm"] > 0 for line in found))
        validated = {line["step"]: (line["validation_loss"], line["validation_accuracy"]) for line in found if "validation_loss" in line}
        self.assertEqual(list(validated), [2, 4, 6, 7])
        printed = re.findall(r"^validation after step (\d+): loss ([\d.]+), accuracy ([\d.]+) % \(5 samples,", said, re.MULTILINE)
        self.assertEqual(printed, [(str(step), f"{loss:.4f}", f"{100 * accuracy:.1f}") for step, (loss, accuracy) in validated.items()])

    def test_processes_read_the_same_samples(self):
        local, said = self.train(self.path, "local", *self.tokens, *self.validation)
        processes, of_processes = self.train(self.path, "processes", *self.tokens, *self.validation, "--transport", "gloo")
        self.assertEqual(processes, local)
        validations = [re.findall(r"validation after step .* samples", text) for text in (said, of_processes)]
        self.assertEqual(len(validations[0]), 4)
        self.assertEqual(*validations)

    def test_text_is_validated_by_text(self):
        text = self.scratch / "text.txt"
        text.write_text("To be, or not to be, that is the question.\n" * 3)
        _, said = self.train(self.path, "text", "--text", text, "--validate", text, steps=2)
        self.assertRegex(said, r"validation after step 2: loss \d\.\d{4}, accuracy \d+\.\d % \(16 samples")
        self.refuse(DIAGNOSTICS, [str(self.scratch), "is a folder"], "rannc-run", self.path, "-o", self.scratch / "no", "--text", text,
                    "--validate", self.scratch)


class Files(RunDataTest):
    def test_samples_are_shuffled_and_validated(self):
        bundle = self.scratch / "mlp.rannc"
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 4,
                     "--micro-batches", 2, "--loss", "cross_entropy(output=logits,labels=y)", "--costs", "analytic", "--no-refine")
        tensors = programs.read_safetensors(MLP / "batch.safetensors")  # eight samples
        folder = self.scratch / "data"
        folder.mkdir()
        for name, (first, last) in {"a": (0, 5), "b": (5, 8)}.items():
            programs.write_safetensors(folder / f"{name}.safetensors", {
                key: (kind, [last - first, *shape[1:]], data[first * len(data) // 8:last * len(data) // 8])
                for key, (kind, shape, data) in tensors.items()})
        whole, _ = self.train(bundle, "whole", "--data", MLP / "batch.safetensors")
        shards, said = self.train(bundle, "shards", "--data", folder, "--validate", folder)
        self.assertEqual(shards, whole)
        self.assertRegex(said, r"validation after step 7: loss \d\.\d{4}, accuracy \d+\.\d % \(8 samples")
        shuffled, _ = self.train(bundle, "shuffled", "--data", folder, "--shuffle", "--seed", 3)
        again, _ = self.train(bundle, "again", "--data", MLP / "batch.safetensors", "--shuffle", "--seed", 3)
        self.assertNotEqual(shuffled, whole)
        self.assertEqual(shuffled, again)
        tensors.pop("labels/y")
        programs.write_safetensors(self.scratch / "unlabelled.safetensors", tensors)
        run = ["rannc-run", bundle, "-o", self.scratch / "no", "--data", folder]
        self.refuse(DIAGNOSTICS, ["unlabelled.safetensors", "has no tensor 'labels/y'"], *run, "--validate",
                    self.scratch / "unlabelled.safetensors")
        self.refuse(DIAGNOSTICS, ["--validate and --log", "nothing is run"], "rannc-run", bundle, "--export-weights",
                    self.scratch / "weights", "--log", self.scratch / "log")
        for flag in (["--validate", folder], ["--log", self.scratch / "log"]):
            self.refuse(DIAGNOSTICS, [flag[0], "nothing is trained"], *run, "--evaluate", *flag)


class Refusals(RunDataTest):
    def test_each_is_one_error(self):
        bundle = self.bundle()
        good = self.write("good.bin", 100, 1)
        (self.scratch / "empty").mkdir()
        run = ["rannc-run", bundle, "-o", self.scratch / "run", "--steps", 3]
        large = self.write("large.bin", 100, 2)
        large.write_bytes(large.read_bytes()[:100] + struct.pack("<H", VOCABULARY) + large.read_bytes()[102:])
        wide = self.write("wide.bin", 100, 3, kind="I")
        odd = self.scratch / "odd.bin"
        odd.write_bytes(b"123")
        for parts, flags in [
                (["absent.bin", "no such file or folder"], ["--tokens", "absent.bin"]),
                (["empty", "contains no .bin file"], ["--tokens", self.scratch / "empty"]),
                (["odd.bin", "3 bytes", "uint16"], ["--tokens", odd]),
                (["one mini-batch needs 4"], ["--tokens", self.write("few.bin", 32, 4)]),
                (["wide.bin", "every second uint16 token is 0", "specify the type"], ["--tokens", wide]),
                (["good.bin", "outside of the model's vocabulary of 256, read as uint32"], ["--tokens", good, "--token-type", "uint32"]),
                (["large.bin", "token 256 at position 50", "vocabulary of 256"], ["--tokens", large]),
                (["--tokens: input 'tokens' has 8 tokens per sample, not 9"], ["--tokens", good, "--sequence", 9]),
                (["absent.bin"], ["--tokens", good, "--validate", "absent.bin"]),
                (["log", "cannot be"], ["--tokens", good, "--log", self.scratch / "absent" / "log"])]:
            with self.subTest(flags=flags):
                self.refuse(DIAGNOSTICS, parts, *run, "--replace", *flags)
        for parts, flags in [(["--tokens"], ["--data", good, "--tokens", good]), (["--tokens"], ["--token-type", "uint16"]),
                             (["--data"], ["--tokens", good, "--shuffle"]), (["--validate"], ["--tokens", good, "--validate-every", 2]),
                             (["uint8"], ["--tokens", good, "--token-type", "uint8"])]:
            with self.subTest(flags=flags):
                self.assertEqual(self.run_program(*run, *flags).returncode, USAGE)


if __name__ == "__main__":
    programs.main()
