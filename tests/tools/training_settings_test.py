"""What training loops set, through the programs: groups of parameters, optimizers, averaged weights, other weights."""
import json
import random
import re
import struct

import programs
import small_onnx
from small_onnx import FLOAT, INT64

DIAGNOSTICS, USAGE = 1, 2
IN, WIDE, OUT, SAMPLES = 6, 16, 3, 8
GROUPS = ["--group", "second.weight: optimizer=adamw, rate=0.5x", "--group", "*.bias: weight_decay=0, rate=2x"]


def numbers(count, seed):
    generator = random.Random(seed)
    return [generator.uniform(-0.5, 0.5) for _ in range(count)]


def network(path, seed, act="Tanh"):
    """Two layers, of which the second stores its weight transposed; `seed` decides the weights alone."""
    weights = [small_onnx.tensor("first.weight", [WIDE, IN], numbers(WIDE * IN, seed)),
               small_onnx.tensor("first.bias", [WIDE], numbers(WIDE, seed + 1)),
               small_onnx.tensor("second.weight", [OUT, WIDE], numbers(WIDE * OUT, seed + 2)),
               small_onnx.tensor("second.bias", [OUT], numbers(OUT, seed + 3))]
    turned = small_onnx.number_attribute("transB", 1)
    nodes = [small_onnx.node("Gemm", ["x", "first.weight", "first.bias"], ["h"], "first", turned),
             small_onnx.node(act, ["h"], ["a"], "act"),
             small_onnx.node("Gemm", ["a", "second.weight", "second.bias"], ["y"], "second", turned)]
    return small_onnx.write(path, nodes, weights, [small_onnx.value("x", FLOAT, ["batch", IN])],
                            [small_onnx.value("y", FLOAT, ["batch", OUT])])


class Settings(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.data = self.scratch / "batch.safetensors"
        tensors = {"x/x": (IN, 1), "labels/t": (OUT, 2)}
        programs.write_safetensors(self.data, {
            name: ("F32", [SAMPLES, width], struct.pack(f"<{SAMPLES * width}f", *numbers(SAMPLES * width, seed)))
            for name, (width, seed) in tensors.items()})

    def compile(self, *more, seed=7, name="model", act="Tanh", model=None):
        model = model or network(self.scratch / f"{name}.onnx", seed, act)
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--mini-batch", SAMPLES, "--costs", "analytic", "--loss",
                     "mse(output=y,labels=t)", *more)
        return bundle

    def arguments(self, bundle, name, steps, *more):
        return ["rannc-run", bundle, "-o", self.scratch / name, "--data", self.data, "--steps", steps, "--loss-log",
                self.scratch / f"{name}.log", *more]

    def train(self, bundle, name, steps, *more):
        return self.succeed(*self.arguments(bundle, name, steps, *more)).stdout

    def losses(self, name):
        return [float.fromhex(line.split()[1]) for line in (self.scratch / f"{name}.log").read_text().splitlines()]


class Groups(Settings):
    def test_groups_are_printed_kept_and_changed(self):
        bundle = self.compile("--cluster", "local:2", "--stages", 2, "--optimizer", "muon", *GROUPS)
        plan = (bundle / "plan.rir").read_text()
        self.assertIn("optimizer muon\ngroup \"second.weight: optimizer=adamw, rate=0.5x\"\n", plan)
        text = self.train(bundle, "run", 3, "--learning-rate", 0.01, "--weight-decay", 0.5)
        self.assertIn("muon, learning rate 0.01, weight decay 0.5", text)
        self.assertIn("  96 parameters in 1 tensor, first.weight: muon, learning rate 0.01, weight decay 0.5\n", text)
        self.assertIn("  48 parameters in 1 tensor, second.weight: adamw, learning rate 0.005, weight decay 0.5\n", text)
        self.assertIn("  19 parameters in 2 tensors, such as first.bias: adamw, learning rate 0.02\n", text)
        held, planned = map(int, re.search(r"held (\d+) bytes at most, (\d+) were predicted", text).groups())
        self.assertLess(held, 1.02 * planned)
        text = self.train(bundle, "run", 5, "--resume", "--learning-rate", 0.02)
        self.assertIn("first.weight: muon, learning rate 0.02, weight decay 0.5", text)
        self.assertIn("second.weight: adamw, learning rate 0.01, weight decay 0.5", text)
        text = self.train(bundle, "run", 6, "--resume", "--group", "second.weight: optimizer=adamw", "--group", "*.bias: rate=3x")
        self.assertIn("changed by a flag: groups 'second.weight: optimizer=adamw' '*.bias: rate=3x' instead of", text)
        self.refuse(DIAGNOSTICS, ["whose state cannot start after step 0; parameter 'second.weight' lacks it"], *self.arguments(
            bundle, "run", 7, "--resume", "--group", "second.weight: optimizer=adafactor"))
        plain = self.compile(name="plain")
        self.train(plain, "sgd", 2, "--optimizer", "sgd")
        self.refuse(DIAGNOSTICS, ["parameter 'first.weight' lacks it"], *self.arguments(
            plain, "sgd", 3, "--resume", "--group", "first.weight: optimizer=adam"))
        text = self.train(bundle, "none", 1, "--group", "none")
        self.assertNotIn("second.weight", text)

    def test_every_plan_trains_alike_and_is_resumed_by_any_other(self):
        more = ["--optimizer", "muon", "--ema", 0.9, *GROUPS]
        plans = {"one": ["--cluster", "local:1"],
                 "two": ["--cluster", "local:2", "--stages", 2],
                 "four": ["--cluster", "local:4", "--stages", 2, "--replicas", "2,2", "--shard-optimizer", "on", "--micro-batches", 2]}
        run = ["--learning-rate", 0.02, "--clip-norm", 0.5, "--warmup-steps", 2, "--validate", self.data, "--validate-every", 3,
               "--decay", "wsd", "--decay-steps", 8]
        bundles = {name: self.compile(*more, *plan, name=name) for name, plan in plans.items()}
        said = {}
        for name, bundle in bundles.items():
            transport = ["--transport", "shm"] if name == "four" else []
            said[name] = self.train(bundle, name, 8, *run, *transport, "--export-weights", self.scratch / f"{name}.safetensors",
                                    "--averaged")
        for name in ("two", "four"):
            for loss, expected in zip(self.losses(name), self.losses("one"), strict=True):
                self.assertAlmostEqual(loss / expected, 1, delta=1e-5)
            for validated in zip(*(re.findall(r"validation after step (\d+): loss ([0-9.]+)", said[of]) for of in (name, "one")), strict=True):
                self.assertEqual(validated[0], validated[1])
        # Averages follow behind.
        loss = float(re.findall(r"validation after step 8: loss ([0-9.]+)", said["one"])[0])
        self.assertGreater(loss, self.losses("one")[-1])
        averages = {name: programs.read_safetensors(self.scratch / f"{name}.safetensors") for name in bundles}
        self.assertEqual(set(averages["four"]), {"first.weight", "first.bias", "second.weight", "second.bias"})
        for name, (_, shape, data) in averages["one"].items():
            own, other = (struct.unpack(f"<{len(data) // 4}f", each[name][2]) for each in (averages["one"], averages["four"]))
            self.assertEqual(shape, averages["four"][name][1])
            for a, b in zip(own, other, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5)
        # Begun by one plan, ended by another.
        self.train(bundles["four"], "resumed", 3, *run)
        self.train(bundles["two"], "resumed", 8, "--resume")
        for loss, expected in zip(self.losses("resumed"), self.losses("one"), strict=True):
            self.assertAlmostEqual(loss / expected, 1, delta=1e-5)

    def test_wrong_groups_are_named(self):
        bundle = self.compile()
        for text, expected in {
                "third.*: rate=1": ["group 'third.*' matches no parameter; there are 'first.weight', 'first.bias', 'second.weight'"],
                "*: rate=1": ["parameter 'first.weight' is in two groups, 'first.*' and '*'"],
                "second.*: momentum=0.5": ["group 'second.*': momentum applies to sgd and muon, not to adam"],
                "second.*: speed=1": ["--group 'second.*: speed=1': 'speed' is not one of optimizer, rate"],
                "second.*: rate=-1": ["rate=-1: expected a positive number, or a factor of the run's such as 0.1x"],
                "*.bias: optimizer=muon": ["parameter 'first.bias' is in two groups"],
                "second.bias: optimizer=muon": ["group 'second.bias': no parameter that it matches has two axes, as muon needs"],
                "second.*": ["expected PATTERN: NAME=VALUE"]}.items():
            with self.subTest(text):
                groups = ["--group", "first.*: rate=2x", "--group", text]
                self.refuse(DIAGNOSTICS, expected, *self.arguments(bundle, "run", 2, *groups))
                self.assertFalse((self.scratch / "run" / "checkpoints").exists())
        self.refuse(DIAGNOSTICS, ["group 'lost' matches no parameter"], "rannc-compile", self.scratch / "model.onnx", "-o",
                    self.scratch / "none.rannc", "--loss", "mse(output=y,labels=t)", "--costs", "analytic", "--group", "lost: rate=1")
        self.assertFalse((self.scratch / "none.rannc").exists())

    def test_flags_of_other_optimizers_are_refused(self):
        bundle = self.compile("--optimizer", "lion")
        for flags, expected in {("--momentum", "0.5"): "--momentum applies to sgd and muon, not to lion",
                                ("--amsgrad",): "--amsgrad applies to adam, adamw and muon, not to lion",
                                ("--epsilon", "1e-3"): "--epsilon applies to adam, adamw and muon, not to lion",
                                ("--muon-rate", "original"): "--muon-rate applies to muon, not to lion"}.items():
            self.refuse(DIAGNOSTICS, [expected], *self.arguments(bundle, "run", 2, *flags))
        for flags, expected in {("--ema", "1"): ["--ema", "1", "a number from 0 to 0.9999999"],
                                ("--muon-rate", "fast"): ["--muon-rate", "fast", "adamw", "original"],
                                ("--optimizer", "lamb"): ["--optimizer", "lamb", "adafactor"],
                                ("--averaged",): ["--averaged", "--export-weights"]}.items():
            self.refuse(USAGE, expected, *self.arguments(bundle, "run", 2, *flags))
        self.refuse(DIAGNOSTICS, ["--averaged: the run keeps no averages of its parameters; --ema does"],
                    *self.arguments(bundle, "run", 2, "--export-weights", self.scratch / "w.safetensors", "--averaged"))
        self.assertFalse((self.scratch / "run").exists(), "before the first step")
        text = self.train(self.compile("--optimizer", "muon", name="muon"), "plain", 1, "--momentum", 0)
        self.assertIn("muon, learning rate 0.001, momentum 0,", text)

    def test_state_that_the_plan_did_not_expect_is_told(self):
        bundle = self.compile("--optimizer", "sgd")
        done = self.succeed(*self.arguments(bundle, "run", 2, "--optimizer", "adam", "--ema", 0.5))
        self.assertIn("the optimizer keeps 489 numbers beside the parameters, but the plan reserves memory for 0", done.stderr)


class Accumulation(Settings):
    """Three of four labels of the second mini-batch do not count."""

    LABELS = [0, 1, 2, 0, 1, -100, -100, -100]

    def setUp(self):
        super().setUp()
        programs.write_safetensors(self.data, {
            "x/x": ("F32", [SAMPLES, IN], struct.pack(f"<{SAMPLES * IN}f", *numbers(SAMPLES * IN, 1))),
            "labels/t": ("I64", [SAMPLES], struct.pack(f"<{SAMPLES}q", *self.LABELS))})

    def losses_of(self, name, mini_batch, steps, *more, rate=0.5):
        model = network(self.scratch / f"{name}.onnx", 7)
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--mini-batch", mini_batch, "--costs", "analytic", "--loss",
                     "cross_entropy(output=y,labels=t)", "--cluster", "local:2", "--stages", 2, "--optimizer", "sgd")
        self.train(bundle, name, steps, "--learning-rate", rate, *more)
        return self.losses(name)

    def test_a_step_of_two_mini_batches_is_that_of_one(self):
        whole = self.losses_of("whole", SAMPLES, 6)
        parts = self.losses_of("parts", SAMPLES // 2, 6, "--accumulate", 2, "--transport", "shm")
        for loss, expected in zip(parts, whole, strict=True):
            self.assertAlmostEqual(loss / expected, 1, delta=1e-5)

    def test_the_mean_counts_each_mini_batch_alike(self):
        alone = self.losses_of("alone", SAMPLES // 2, 2, rate=1e-30)
        mean = self.losses_of("mean", SAMPLES // 2, 6, "--accumulate", 2, "--accumulate-as", "mean")
        batch = self.losses_of("batch", SAMPLES // 2, 1, "--accumulate", 2)
        self.assertAlmostEqual(mean[0] / (sum(alone) / 2), 1, delta=1e-6)
        self.assertAlmostEqual(batch[0] / ((4 * alone[0] + alone[1]) / 5), 1, delta=1e-6)
        self.assertLess(mean[-1], mean[0])

    def test_a_resumed_run_accumulates_as_before(self):
        more = ["--accumulate", 2, "--accumulate-as", "mean"]
        whole = self.losses_of("whole", SAMPLES // 4, 4, *more)
        self.losses_of("parted", SAMPLES // 4, 2, *more)
        text = self.train(self.scratch / "whole.rannc", "parted", 4, "--resume")
        self.assertIn("flags of the run: --accumulate 2, --accumulate-as mean", text)
        self.assertEqual(self.losses("parted"), whole)
        self.refuse(DIAGNOSTICS, ["give --accumulate 1"], *self.arguments(self.scratch / "whole.rannc", "parted", 6, "--resume",
                                                                          "--explain-step"))

    def test_epochs_and_wrong_numbers(self):
        losses = self.losses_of("epochs", SAMPLES // 4, 1, "--replace")
        text = self.succeed("rannc-run", self.scratch / "epochs.rannc", "-o", self.scratch / "three", "--data", self.data, "--epochs", 3,
                            "--accumulate", 3, "--loss-log", self.scratch / "three.log").stdout
        self.assertEqual(len(self.losses("three")), 4, "twelve mini-batches")
        self.assertEqual(len(losses), 1, text)
        for flags, expected in {("--accumulate", "0"): ["--accumulate", "0", "a whole number from 1"],
                                ("--accumulate-as", "mean"): ["--accumulate-as requires --accumulate"],
                                ("--accumulate", "2", "--explain-step"): ["--accumulate excludes --explain-step"],
                                ("--accumulate", "2", "--accumulate-as", "sum"): ["--accumulate-as", "batch", "mean"]}.items():
            self.refuse(USAGE, expected, *self.arguments(self.scratch / "epochs.rannc", "run", 2, *flags))


WORDS, KINDS = 12, 5


def tagger(path):
    """A kind for each word of a sequence of any length: a table, a layer, a loss over words that count."""
    weights = [small_onnx.tensor("table", [WORDS, WIDE], numbers(WORDS * WIDE, 1)),
               small_onnx.tensor("inner", [WIDE, WIDE], numbers(WIDE * WIDE, 2)),
               small_onnx.tensor("kinds", [WIDE, KINDS], numbers(WIDE * KINDS, 3))]
    nodes = [small_onnx.node("Gather", ["table", "words"], ["e"], "embed"),
             small_onnx.node("MatMul", ["e", "inner"], ["h"], "layer"),
             small_onnx.node("Tanh", ["h"], ["a"], "act"),
             small_onnx.node("MatMul", ["a", "kinds"], ["y"], "head")]
    return small_onnx.write(path, nodes, weights, [small_onnx.value("words", INT64, ["batch", "time"])],
                            [small_onnx.value("y", FLOAT, ["batch", "time", KINDS])])


class LearningRates(Settings):
    LEVELS = "▁▂▃▄▅▆▇█"

    def rates(self, decay):
        """The fraction of the learning rate at each step."""
        log = self.scratch / "steps.jsonl"
        ends = [] if decay in ("inverse-sqrt", "constant") else ["--decay-steps", 100]
        self.train(self.bundle, "run", 121, "--replace", "--learning-rate", "0.001", "--warmup-steps", 10, "--decay", decay, *ends, "--log", log)
        return [json.loads(line)["learning_rate"] / 0.001 for line in log.read_text().splitlines()]

    def test_the_curves_of_the_manual_are_those_of_runs(self):
        self.bundle = self.compile()
        page = (programs.SOURCE / "tools" / "manual" / "rannc-run.md").read_text()
        head, *rows = re.findall(r"^\| `([\w-]+)` \| (?:steps 0 to 120|`([▁▂▃▄▅▆▇█]+)`) \| (.*) \|$", page.replace("| `--decay` |", "| `decay` |"),
                                 re.MULTILINE)
        steps = [int(step) for step in head[2].split(" | ")]
        self.assertEqual([row[0] for row in rows], ["cosine", "linear", "wsd", "inverse-sqrt", "constant"])
        for decay, curve, shown in rows:
            rates = self.rates(decay)
            self.assertEqual(shown, " | ".join(f"{rates[step]:.2f}" for step in steps), decay)
            self.assertEqual(curve, "".join(self.LEVELS[min(7, int(7.999 * rate))] for rate in rates[::4]), decay)


class Lengths(Settings):
    def setUp(self):
        super().setUp()
        self.data = self.scratch / "sentences"
        self.data.mkdir()
        for length, samples in {3: 5, 6: 4, 7: 4, 12: 3}.items():
            generator = random.Random(length)
            words = [generator.randrange(WORDS) for _ in range(samples * length)]
            programs.write_safetensors(self.data / f"{length:02}.safetensors", {
                "x/words": ("I64", [samples, length], struct.pack(f"<{samples * length}q", *words)),
                "labels/t": ("I64", [samples, length], struct.pack(f"<{samples * length}q", *(word % KINDS for word in words)))})

    def compile_tagger(self, name, *more):
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", tagger(self.scratch / f"{name}.onnx"), "-o", bundle, "--mini-batch", 2, "--costs", "analytic",
                     "--loss", "cross_entropy(output=y,labels=t)", "--assume", "time=12", *more)
        return bundle

    def test_lengths_train_alike_in_every_plan(self):
        run = ["--bucket-by-length", "--shuffle", "--learning-rate", 0.05, "--validate", self.data]
        said = {}
        for name, cluster in {"one": ["local:1"], "two": ["local:2", "--stages", 2]}.items():
            said[name] = self.train(self.compile_tagger(name, "--cluster", *cluster), name, 21, *run)
        self.assertIn("16 samples of 4 files in 4 sizes, shuffled, of which 2 are dropped in each epoch: they fill no mini-batch of 2 "
                      "with others of their size", said["one"])
        for loss, expected in zip(self.losses("two"), self.losses("one"), strict=True):
            self.assertAlmostEqual(loss / expected, 1, delta=1e-5)
        self.assertLess(self.losses("one")[-1], self.losses("one")[0])
        validated = [re.search(r"validation after step 21: (.*) \(16 samples", text)[1] for text in said.values()]
        self.assertEqual(validated[0], validated[1])
        for text in said.values():
            held, planned = map(int, re.search(r"held (\d+) bytes at most, (\d+) were predicted", text).groups())
            self.assertLess(held, 1.02 * planned)
        self.assertNotIn("sizes exceed those of the plan", "".join(said.values()))
        self.train(self.scratch / "two.rannc", "parted", 9, *run)
        self.train(self.scratch / "one.rannc", "parted", 21, "--resume", *run[:2])
        for loss, expected in zip(self.losses("parted"), self.losses("one"), strict=True):
            self.assertAlmostEqual(loss / expected, 1, delta=1e-5)

    def test_padding_that_is_masked_changes_no_loss(self):
        bundle = self.compile_tagger("tagger", "--cluster", "local:1")
        padded = ["--bucket-by-length", "--pad-multiple", 12, "--pad", "words=0", "--pad", "labels/t=-100"]
        text = self.train(bundle, "padded", 8, *padded, "--learning-rate", 1e-30)
        self.assertIn("16 samples of 4 files", text)
        self.train(bundle, "alone", 1, "--bucket-by-length")
        self.assertAlmostEqual(self.losses("padded")[0] / self.losses("alone")[0], 1, delta=1e-6)
        self.refuse(DIAGNOSTICS, ["no number to pad it with", "give --pad labels/t=NUMBER"], *self.arguments(
            bundle, "none", 2, "--bucket-by-length", "--pad-multiple", 4, "--pad", "words=0"))

    def test_wrong_uses_are_named(self):
        bundle = self.compile_tagger("tagger", "--cluster", "local:1")
        alike = ["--pad-multiple", 12, "--pad", "words=0", "--pad", "labels/t=-100"]
        self.train(bundle, "alike", 8, *alike)  # of one size after padding
        for pad in ("words=1e30", "labels/t=1e19", "words=0.5"):
            self.refuse(DIAGNOSTICS, ["is padded with", "but has whole numbers of type i64"], *self.arguments(
                bundle, "none", 2, *alike[:2], "--pad", pad, "--pad", alike[3] if pad.startswith("labels") else alike[5]))
        self.refuse(DIAGNOSTICS, ["an evaluation writes outputs of one size"], *self.arguments(
            bundle, "none", 2, "--bucket-by-length", "--evaluate"))
        self.refuse(DIAGNOSTICS, ["06.safetensors", "with --bucket-by-length, files may have other sizes"],
                    *self.arguments(bundle, "none", 2))
        for flags, expected in {("--pad-multiple", "0"): ["--pad-multiple", "a whole number from 1"],
                                ("--pad", "words=0"): ["--pad requires --pad-multiple"]}.items():
            self.refuse(USAGE, expected, *self.arguments(bundle, "none", 2, *flags))
        for pad in ("words", "words=zero", "=3"):
            self.refuse(DIAGNOSTICS, [f"--pad {pad}: expected INPUT=NUMBER"], *self.arguments(
                bundle, "none", 2, "--pad-multiple", 4, "--pad", pad))


class OtherWeights(Settings):
    def test_a_new_export_of_the_same_program_continues(self):
        bundle = self.compile(seed=7)
        self.train(bundle, "run", 6)
        self.train(bundle, "parted", 3)
        self.train(self.compile(seed=70, name="again"), "parted", 6, "--resume")
        self.assertEqual(self.losses("parted"), self.losses("run"))
        self.refuse(DIAGNOSTICS, ["checkpoint belongs to another model"],
                    *self.arguments(self.compile(name="other", act="Sigmoid"), "parted", 8, "--resume"))
        # Constants are in no checkpoint: those of another export, and tensors that were trained before, are refused.
        kept = ["--kind", "first.weight=constant"]
        frozen = self.compile(*kept, seed=7, name="frozen")
        self.train(frozen, "constant", 2)
        self.train(self.compile(*kept, seed=7, name="same"), "constant", 4, "--resume")
        for bundle, run in ((self.compile(*kept, seed=8, name="others"), "constant"), (frozen, "parted"), (bundle, "constant")):
            self.refuse(DIAGNOSTICS, ["checkpoint belongs to a model with other constants", "--kind"],
                        *self.arguments(bundle, run, 8, "--resume"))
        # A saved plan, too.
        plan = self.scratch / "model.rannc" / "plan.rir"
        model = network(self.scratch / "third.onnx", 700)
        self.succeed("rannc-compile", model, "-o", self.scratch / "third.rannc", "--costs", "analytic", "--loss", "mse(output=y,labels=t)",
                     "--plan", plan)


if __name__ == "__main__":
    programs.main()
