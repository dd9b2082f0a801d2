"""Sources of samples of a training run: token files, validation, and the log of its steps."""
import array
import json
import os
import pathlib
import random
import re
import shutil
import struct
import sys

import programs
import run_folder
import small_onnx as onnx
import tensorboard_events

DIAGNOSTICS, USAGE = 1, 2
MLP = programs.DATA / "small_mlp"
CONTEXT, STEPS = 8, 7
VOCABULARY = 256


def losses(folder):
    return [line.split()[1] for line in (folder / "losses.txt").read_text().splitlines()]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def npy(kind, data, shape):
    """A .npy file as NumPy writes it."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


class RunDataTest(programs.ProgramTest):
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
        self.assertIn("validation", report.sections["Loss"].drawings[0].labels, "the dots have a legend")
        self.assertEqual([title.split(":")[0] for title in titles], [f"validation after step {step}" for step in (2, 4, 6, 7)])
        whole, log = lines(log), self.scratch / "parts.jsonl"
        self.train(self.path, "parts", *self.tokens, *self.validation, "--log", log, steps=4)
        with log.open("a") as more:  # of steps that no checkpoint has; the run was killed in the middle of a line
            more.write('{"step":5,"loss":1}\n{"step":6,"lo')
        resumed, said = self.train(self.path, "parts", *self.tokens, *self.validation, "--log", log, "--resume")
        self.assertEqual(resumed, plain)
        self.assertEqual(re.findall("changed.*", said), [f"changed by a flag: --steps {STEPS} instead of 4"])
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

    def test_formats_give_the_same_losses(self):
        tokens = array.array("H", random.Random(3).choices(range(VOCABULARY), k=12 * CONTEXT + 1))
        wide = array.array("q", tokens)
        raw = self.scratch / "raw.bin"
        raw.write_bytes(tokens.tobytes())
        plain, _ = self.train(self.path, "raw", "--tokens", raw, steps=3)
        files = {"ids.npy": npy("<i8", wide.tobytes(), f"{len(wide)},"),
                 "llm.bin": struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + tokens.tobytes(),
                 "raw64.bin": wide.tobytes()}
        for name, data in files.items():
            (self.scratch / name).write_bytes(data)
            more = ["--token-type", "int64"] if name == "raw64.bin" else []
            found, _ = self.train(self.path, f"run-{name}", "--tokens", self.scratch / name, *more, steps=3)
            self.assertEqual(found, plain, name)
        (self.scratch / "shards").joinpath("a.npy").write_bytes(files["ids.npy"])
        self.refuse(DIAGNOSTICS, ["shards", "files of different kinds: a.bin and a.npy"], "rannc-run", self.path, "-o", self.scratch / "no",
                    *self.tokens)

    def test_processes_read_the_same_samples(self):
        local, said = self.train(self.path, "local", *self.tokens, *self.validation)
        processes, of_processes = self.train(self.path, "processes", *self.tokens, *self.validation, "--transport", "gloo")
        self.assertEqual(processes, local)
        validations = [re.findall(r"validation after step .* samples", text) for text in (said, of_processes)]
        self.assertEqual(len(validations[0]), 4)
        self.assertEqual(*validations)

    def test_tensorboard_has_what_the_log_has(self):
        board, log = self.scratch / "board", self.scratch / "run.jsonl"
        flags = [*self.tokens, *self.validation, "--log", log, "--tensorboard", board]
        self.train(self.path, "shown", *flags, steps=4)
        self.train(self.path, "shown", *flags, "--resume")
        files = [tensorboard_events.events(path) for path in sorted(board.iterdir())]
        self.assertEqual([events[0] for events in files], [(0, b"brain.Event:2")] * 2)
        self.assertEqual(files[1][1], (5, {1: 1}))  # the second discards what the first may have of later steps
        shown = [*files[0][1:], *files[1][2:]]
        self.assertEqual([step for step, _ in shown], list(range(1, STEPS + 1)))
        for (step, scalars), line in zip(shown, lines(log), strict=True):
            self.assertEqual(line.pop("step"), step)
            self.assertEqual(scalars, {tag: struct.unpack("f", struct.pack("f", value))[0] for tag, value in line.items()})

    def test_epochs(self):
        log = self.scratch / "epochs.jsonl"
        found = self.scratch / "epochs"
        done = self.succeed("rannc-run", self.path, "-o", found, "--epochs", 3, "--clip-norm", 1, *self.tokens, "--log", log)
        self.assertIn("step 6/6", done.stdout)  # two mini-batches of 4 of the 10 samples
        self.assertEqual([line["epoch"] for line in lines(log)], [0.5, 1, 1.5, 2, 2.5, 3])
        plain, _ = self.train(self.path, "plain", *self.tokens, steps=6)
        self.assertEqual(losses(found), plain)
        text = self.scratch / "text.txt"
        text.write_text("To be, or not to be, that is the question.\n" * 3)
        self.refuse(DIAGNOSTICS, ["--epochs", "text", "has no epochs; use --steps"], "rannc-run", self.path, "-o", self.scratch / "no",
                    "--text", text, "--epochs", 1)
        self.refuse(USAGE, ["--epochs", "--steps"], "rannc-run", self.path, *self.tokens, "--epochs", 1, "--steps", 1)

    def test_a_resumed_run_keeps_its_length_and_validations(self):
        """More steps than the default of --steps, so that forgetting them shows."""
        folder, flags = self.scratch / "run", ["--epochs", 54, "--checkpoint-every", 104, *self.validation]
        self.succeed("rannc-run", self.path, "-o", folder, *self.tokens, *flags)
        whole = losses(folder)
        self.assertEqual(len(whole), 108)
        shutil.rmtree(folder / "checkpoints" / "step-108")  # as if it had ended before
        again = ["rannc-run", self.path, "-o", folder, *self.tokens, "--resume"]
        said = self.succeed(*again).stdout
        self.assertIn("resuming after step 104", said)
        self.assertIn(f"flags of the run: --checkpoint-every 104, --epochs 54, --validate {self.held_out}, --validate-every 2", said)
        self.assertNotIn("changed", said)
        self.assertEqual(losses(folder), whole)
        self.assertEqual(re.findall(r"validation after step (\d+)", said), ["106", "108"])
        self.assertIn("all 108 steps of the run are done; --steps N or --epochs N continues it", self.succeed(*again).stdout)
        said = self.succeed(*again, "--steps", 110, "--validate-every", 1).stdout
        self.assertEqual(re.findall("changed by a flag: (.*)", said), ["--steps 110 instead of --epochs 54", "--validate-every 1 instead of 2"])
        self.assertEqual(re.findall(r"validation after step (\d+)", said), ["109", "110"])

    def test_text_is_validated_by_text(self):
        text = self.scratch / "text.txt"
        text.write_text("To be, or not to be, that is the question.\n" * 3)
        _, said = self.train(self.path, "text", "--text", text, "--validate", text, steps=2)
        self.assertRegex(said, r"validation after step 2: loss \d\.\d{4}, accuracy \d+\.\d % \(16 samples")
        self.refuse(DIAGNOSTICS, [str(self.scratch), "is a folder"], "rannc-run", self.path, "-o", self.scratch / "no", "--text", text,
                    "--validate", self.scratch)


# A package with the two functions that rannc calls, for machines that have no package `tokenizers`.
TOKENIZERS = """
import json
class Encoded:
    def __init__(self, ids): self.ids = ids
class Tokenizer:
    def __init__(self, words): self.words = words
    def from_file(path):
        with open(path) as file: return Tokenizer(json.load(file)["words"])
    def encode(self, text, add_special_tokens):
        assert add_special_tokens is False
        return Encoded([self.words[word] for word in text.split()])
"""


class Tokenizers(RunDataTest):
    """Text of known words, encoded by a package that knows a number of each."""
    WORDS = {"to": 250, "be": 3, "or": 99, "not": 0}

    def setUp(self):
        super().setUp()
        (self.scratch / "packages").mkdir()
        (self.scratch / "packages" / "tokenizers.py").write_text(TOKENIZERS)
        self.environment = {**os.environ, "PYTHONPATH": str(self.scratch / "packages"), "XDG_CACHE_HOME": str(self.scratch / "cache")}
        self.path = self.bundle()
        self.tokenizer = self.scratch / "tokenizer.json"
        self.tokenizer.write_text(json.dumps({"words": self.WORDS}))
        (self.scratch / "texts").mkdir()
        draw = random.Random(4)
        self.words = [draw.choices(list(self.WORDS), k=60) for _ in range(2)]
        for name, words in zip("ab", self.words, strict=True):
            (self.scratch / "texts" / f"{name}.txt").write_text("\n".join(words))
        self.flags = ["--text", self.scratch / "texts", "--tokenizer", self.tokenizer]

    def run_program(self, name, *arguments):
        return programs.run(name, *arguments, env=self.environment)

    def test_it_is_a_run_on_the_tokens(self):
        tokens = self.scratch / "tokens.bin"
        tokens.write_bytes(array.array("I", [self.WORDS[word] for words in self.words for word in words]).tobytes())
        for name, flags in {"local": [], "processes": ["--transport", "gloo"]}.items():
            encoded, said = self.train(self.path, name, *self.flags, *flags, "--validate", self.scratch / "texts" / "a.txt", steps=4)
            plain, _ = self.train(self.path, f"{name}-plain", "--tokens", tokens, "--token-type", "uint32", *flags, steps=4)
            self.assertEqual(encoded, plain)
            self.assertRegex(said, r"validation after step 4: loss \d\.\d{4}, accuracy \d+\.\d % \(7 samples")
        # Text is encoded once.
        (self.scratch / "packages" / "tokenizers.py").write_text("raise RuntimeError('read again')")
        self.train(self.path, "again", *self.flags, steps=4)
        (self.scratch / "texts" / "b.txt").write_text("to be")
        self.refuse(DIAGNOSTICS, ["tokenizer.json", "read again"], "rannc-run", self.path, "-o", self.scratch / "no", *self.flags)

    def test_what_is_wrong_is_named(self):
        run = ["rannc-run", self.path, "-o", self.scratch / "no"]
        self.refuse(USAGE, ["--tokenizer", "--text"], *run, "--tokens", self.scratch / "no.bin", "--tokenizer", self.tokenizer)
        (self.scratch / "latin.txt").write_bytes("be né".encode("latin-1"))
        self.refuse(DIAGNOSTICS, ["tokenizer.json", "latin.txt", "utf-8"], *run, "--text", self.scratch / "latin.txt", *self.flags[2:])
        (self.scratch / "zeros").write_bytes(b"to be\0")
        self.refuse(DIAGNOSTICS, ["zeros", "is no text: it has zero bytes"], *run, "--text", self.scratch / "zeros", *self.flags[2:])
        self.tokenizer.write_text("{}")
        self.refuse(DIAGNOSTICS, ["tokenizer.json", "cannot be read as a tokenizer: 'words'"], *run, *self.flags)
        (self.scratch / "packages" / "tokenizers.py").write_text("raise ImportError('No module named tokenizers')")
        self.refuse(DIAGNOSTICS, ["package tokenizers: No module named tokenizers", "pip install tokenizers"], *run, *self.flags)
        self.assertEqual(list((self.scratch / "cache" / "rannc" / "tokens").iterdir()), [])

    @programs.whole
    def test_the_package_itself(self):
        """A byte-level tokenizer with merges; by a Python that has the package."""
        tokenizers = package_tokenizers(self)
        text = "to be, or not to be: that is the question.\n" * 200
        file = self.scratch / "hamlet.txt"
        file.write_text(text)
        trained = tokenizers.ByteLevelBPETokenizer()
        trained.train([str(file)], vocab_size=VOCABULARY, show_progress=False)
        trained.save(str(self.tokenizer))
        del self.environment["PYTHONPATH"]
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        encoded, _ = self.train(self.path, "encoded", "--text", file, "--tokenizer", self.tokenizer)
        tokens = self.scratch / "tokens.bin"
        tokens.write_bytes(array.array("I", trained.encode(text).ids).tobytes())
        plain, _ = self.train(self.path, "plain", "--tokens", tokens, "--token-type", "uint32")
        self.assertEqual(encoded, plain)


def package_tokenizers(test):
    try:
        import tokenizers
    except ImportError:
        test.skipTest("this Python has no package tokenizers")
    return tokenizers


class Metrics(RunDataTest):
    """A linear model that also returns the squared prediction of each sample, averaged over its features."""
    TABLE = [0.5, -1.0, 0.25, 2.0]

    def setUp(self):
        super().setUp()
        model = onnx.write(self.scratch / "linear.onnx",
                           [onnx.node("MatMul", ["x", "table"], ["y"], "product"), onnx.node("Mul", ["y", "y"], ["squares"], "square"),
                            onnx.node("ReduceMean", ["squares"], ["power"], "mean", onnx.numbers_attribute("axes", [1]),
                                      onnx.number_attribute("keepdims", 0)),
                            onnx.node("ReduceMean", ["squares"], ["total"], "all", onnx.number_attribute("keepdims", 0))],
                           [onnx.tensor("table", [2, 2], self.TABLE)], [onnx.value("x", onnx.FLOAT, ["batch", 2])],
                           [onnx.value("y", onnx.FLOAT, ["batch", 2]), onnx.value("power", onnx.FLOAT, ["batch"])])
        self.path = self.scratch / "linear.rannc"
        self.succeed("rannc-compile", model, "-o", self.path, "--cluster", "local:2", "--stages", 2, "--mini-batch", 4, "--micro-batches", 2,
                     "--costs", "analytic", "--no-refine", "--loss", "mse(output=y,labels=target)")
        draw = random.Random(5)
        self.x = [draw.random() for _ in range(2 * 7)]
        programs.write_safetensors(self.scratch / "data.safetensors", {
            "x/x": ("F32", [7, 2], struct.pack("<14f", *self.x)), "labels/target": ("F32", [7, 2], struct.pack("<14f", *self.x))})
        self.flags = ["--data", self.scratch / "data.safetensors", "--validate", self.scratch / "data.safetensors"]

    def test_the_mean_of_all_samples(self):
        rows = [self.x[i:i + 2] for i in range(0, 14, 2)]
        squares = [(row[0] * self.TABLE[i] + row[1] * self.TABLE[2 + i])**2 for row in rows for i in range(2)]
        for name, flags in {"local": [], "processes": ["--transport", "gloo"]}.items():
            log = self.scratch / f"{name}.jsonl"
            # Nothing is trained, so that the mean is that of the weights of the file.
            _, said = self.train(self.path, name, *self.flags, "--metric", "power", "--learning-rate", 1e-30, "--optimizer", "sgd",
                                 "--log", log, *flags, steps=1)
            found = lines(log)[0]["validation_metrics"]
            self.assertEqual(list(found), ["power"])
            self.assertAlmostEqual(found["power"], sum(squares) / len(squares), delta=1e-6)
            self.assertRegex(said, rf"validation after step 1: loss [\d.]+, power {found['power']:.4f} \(7 samples")

    def test_bad_metrics(self):
        no = ["-o", self.scratch / "no", "--metric"]
        self.refuse(DIAGNOSTICS, ["metric none: the model has no such output; it has y, power"], "rannc-run", self.path, *self.flags, *no, "none")
        self.refuse(USAGE, ["--metric", "--validate"], "rannc-run", self.path, *self.flags[:2], *no, "power")
        self.assertFalse((self.scratch / "no").exists())


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
        ids = self.scratch / "ids.npy"
        ids.write_bytes(npy("<i8", array.array("q", range(100)).tobytes(), "100,"))
        parquet, jsonl = self.scratch / "data.parquet", self.scratch / "data.jsonl"
        parquet.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        (self.scratch / "shards").mkdir()
        for name in "ba":
            (self.scratch / "shards" / f"{name}.parquet").write_bytes(parquet.read_bytes())
        jsonl.write_text('{"text": "To be, or not to be"}\n')
        for parts, flags in [
                (["absent.bin", "no such file or folder"], ["--tokens", "absent.bin"]),
                (["empty", "contains no .bin or .npy or .safetensors file\n"], ["--tokens", self.scratch / "empty"]),
                (["shards", "contains no .bin or .npy or .safetensors file, but a.parquet"], ["--tokens", self.scratch / "shards"]),
                (["odd.bin", "3 bytes", "uint16"], ["--tokens", odd]),
                (["one mini-batch needs 4"], ["--tokens", self.write("few.bin", 32, 4)]),
                (["wide.bin", "looks like a file of int32 or uint32 tokens", "specify the type: --token-type"], ["--tokens", wide]),
                (["ids.npy", "has int64 tokens, as it specifies itself", "uint16"], ["--tokens", ids, "--token-type", "uint16"]),
                (["data.parquet", "is a Parquet file", "pyarrow.parquet", "data.parquet"], ["--tokens", parquet]),
                (["data.jsonl", "is JSON text", "json.loads(line)"], ["--tokens", good, "--validate", jsonl]),
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


class NarrowIntegers(RunDataTest):
    """Tokens and labels of 32 bits or less are those of 64: PyTorch's data sets often have int32."""

    GPT = programs.DATA / "small_gpt"
    KINDS = {"I64": "<i8", "I32": "<i4", "I16": "<i2"}  # in .npy files
    FORMATS = {"I64": "q", "I32": "i", "I16": "h"}

    def samples(self, dtype):
        """The model's samples with integers of that type, as a .safetensors file and as a folder of .npy files."""
        tensors, folder = {}, self.scratch / f"{dtype}.npy"
        for name, (kind, shape, data) in programs.read_safetensors(self.GPT / "batch.safetensors").items():
            self.assertEqual(kind, "I64")
            wide = struct.unpack(f"<{len(data) // 8}q", data)
            narrow = struct.pack(f"<{len(wide)}{self.FORMATS[dtype]}", *wide)
            tensors[name] = (dtype, shape, narrow)
            path = folder / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(npy(self.KINDS[dtype], narrow, ", ".join(map(str, shape))))
        programs.write_safetensors(self.scratch / f"{dtype}.safetensors", tensors)
        return self.scratch / f"{dtype}.safetensors", folder

    def test_they_are_widened(self):
        bundle, found = self.scratch / "gpt.rannc", set()
        self.succeed("rannc-compile", self.GPT / "model.onnx", "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 4, "--costs",
                     "analytic", "--loss", "cross_entropy(output=logits,labels=targets)")
        for dtype in self.KINDS:
            for samples in self.samples(dtype):
                log = self.scratch / f"{samples.name}.jsonl"
                trained, _ = self.train(bundle, f"{samples.name}.run", "--data", samples, "--validate", samples, "--log", log)
                self.succeed("rannc-run", bundle, "-o", self.scratch / "evaluation", "--data", samples, "--evaluate")
                outputs = (self.scratch / "evaluation" / "outputs.safetensors").read_bytes()
                found.add((tuple(trained), lines(log)[-1]["validation_loss"], outputs))
        self.assertEqual(len(found), 1, "losses, validation and outputs are those of int64")
        self.assertEqual(len(set(trained)), STEPS)


if __name__ == "__main__":
    programs.main()
