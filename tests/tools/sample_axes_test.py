"""Samples are cut along the axis that the model says: a model with time in front trains as its batch-first twin does."""
import random
import struct

import programs
import small_onnx as onnx

DIAGNOSTICS = 1
SAMPLES, LENGTH, WIDTH, HIDDEN, CLASSES = 13, 4, 3, 5, 3
MINI_BATCH = 4
LOSS = "cross_entropy(output=logits,labels=y)"
# Sums of doubles in another order.
LIMIT = 1e-11


def numbers(seed, count):
    generator = random.Random(seed)
    return [generator.uniform(-0.8, 0.8) for _ in range(count)]


def transpose(name, source, target, order):
    return onnx.node("Transpose", [source], [target], name, onnx.numbers_attribute("perm", order))


def model(path, time_first, batch="batch"):
    """A recurrent layer and a projection, whose logits are scaled by a temperature and shifted by a row that all samples share."""
    dims = ["time", batch] if time_first else [batch, "time"]
    nodes = [] if time_first else [transpose("in", "x", "x_t", [1, 0, 2])]
    nodes += [onnx.node("RNN", ["x" if time_first else "x_t", "w", "r"], ["all"], "rnn", onnx.number_attribute("hidden_size", HIDDEN)),
              onnx.node("Squeeze", ["all", "one"], ["states"], "squeeze"),
              onnx.node("MatMul", ["states", "o"], ["scores"], "project"),
              onnx.node("Div", ["scores", "temperature"], ["scaled"], "scale"),
              onnx.node("Add", ["scaled", "shift"], ["logits" if time_first else "logits_t"], "add")]
    nodes += [] if time_first else [transpose("out", "logits_t", "logits", [1, 0, 2])]
    weights = [onnx.tensor("w", [1, HIDDEN, WIDTH], numbers(1, HIDDEN * WIDTH)),
               onnx.tensor("r", [1, HIDDEN, HIDDEN], numbers(2, HIDDEN * HIDDEN)),
               onnx.tensor("o", [HIDDEN, CLASSES], numbers(3, HIDDEN * CLASSES)), onnx.tensor("one", [1], [1], onnx.INT64)]
    inputs = [onnx.value("x", onnx.FLOAT, [*dims, WIDTH]), onnx.value("temperature", onnx.FLOAT, []),
              onnx.value("shift", onnx.FLOAT, [1, CLASSES])]
    return onnx.write(path, nodes, weights, inputs, [onnx.value("logits", onnx.FLOAT, [*dims, CLASSES])])


def sequences(time_first, samples=SAMPLES, labels=None):
    """Tensors of a data file; both layouts have the same numbers."""
    x = [numbers(10 + sample, LENGTH * WIDTH) for sample in range(samples)]
    y = [[(sample * 7 + place * 5) % CLASSES for place in range(LENGTH)] for sample in range(labels or samples)]
    if time_first:
        flat_x = [x[s][t * WIDTH + i] for t in range(LENGTH) for s in range(samples) for i in range(WIDTH)]
        flat_y = [row[t] for t in range(LENGTH) for row in y]
    else:
        flat_x, flat_y = [value for row in x for value in row], [value for row in y for value in row]
    dims = (lambda count: [LENGTH, count]) if time_first else (lambda count: [count, LENGTH])
    return {"x/x": ("F32", [*dims(samples), WIDTH], struct.pack(f"<{len(flat_x)}f", *flat_x)),
            "x/temperature": ("F32", [], struct.pack("<f", 0.7)),
            "x/shift": ("F32", [1, CLASSES], struct.pack("<3f", 0.1, -0.2, 0.3)),
            "labels/y": ("I64", dims(len(y)), struct.pack(f"<{len(flat_y)}q", *flat_y))}


class SampleAxes(programs.ProgramTest):
    def compile(self, time_first, *flags, batch="batch"):
        path = model(self.scratch / f"{time_first}.onnx", time_first, batch)
        bundle = self.scratch / f"{time_first}-{len(list(self.scratch.iterdir()))}.rannc"
        self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic", "--dtype", "float64", "--mini-batch", MINI_BATCH,
                     "--loss", LOSS, "--optimizer", "adam", "--assume", f"time={LENGTH}", *flags)
        return bundle

    def data(self, tensors):
        path = self.scratch / f"data-{len(list(self.scratch.iterdir()))}.safetensors"
        programs.write_safetensors(path, tensors)
        return path

    def losses(self, bundle, data, *flags, steps=7):
        folder = self.scratch / f"run-{len(list(self.scratch.iterdir()))}"
        done = self.succeed("rannc-run", bundle, "-o", folder, "--data", data, "--steps", steps, *flags)
        return [float.fromhex(line.split()[1]) for line in (folder / "losses.txt").read_text().splitlines()], done, folder

    def expect_equal(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for ours, theirs in zip(found, expected):
            self.assertLess(abs(ours - theirs), LIMIT * abs(theirs), (found, expected))

    def test_time_first_trains_as_batch_first(self):
        expected, _, _ = self.losses(self.compile(False, "--cluster", "local:1"), self.data(sequences(False)))
        data = self.data(sequences(True))
        for flags in (["--cluster", "local:1", "--micro-batches", 1], ["--cluster", "local:2", "--stages", 2, "--micro-batches", 3],
                      ["--cluster", "local:3", "--replicas", "2,1", "--micro-batches", 2]):
            bundle = self.compile(True, *flags)
            for transport in ("local", "gloo"):
                with self.subTest(flags=flags, transport=transport):
                    found, done, _ = self.losses(bundle, data, "--transport", transport)
                    self.expect_equal(found, expected)
                    self.assertIn(f"{SAMPLES} samples, of which the last 1 is dropped", done.stdout)

    def test_batch_symbol_of_a_flag(self):
        expected, _, _ = self.losses(self.compile(False, "--cluster", "local:1"), self.data(sequences(False)))
        bundle = self.compile(True, "--cluster", "local:1", "--batch-symbol", "n", batch="n")
        self.expect_equal(self.losses(bundle, self.data(sequences(True)))[0], expected)

    def test_a_resumed_run_goes_on_with_the_same_samples(self):
        bundle, data = self.compile(True, "--cluster", "local:2", "--stages", 2), self.data(sequences(True))
        expected, _, _ = self.losses(bundle, data)
        first, _, folder = self.losses(bundle, data, steps=3)
        self.succeed("rannc-run", bundle, "-o", folder, "--data", data, "--steps", 7, "--resume")
        resumed = [float.fromhex(line.split()[1]) for line in (folder / "losses.txt").read_text().splitlines()]
        self.assertEqual((first, resumed), (expected[:3], expected))

    def test_evaluation_has_all_samples(self):
        found = []
        for time_first in (False, True):
            folder = self.scratch / f"evaluated-{time_first}"
            self.succeed("rannc-run", self.compile(time_first, "--cluster", "local:2", "--stages", 2), "-o", folder, "--data",
                         self.data(sequences(time_first)), "--evaluate")
            found.append(float.fromhex(programs.read_metadata(folder / "outputs.safetensors")["loss"]))
        self.expect_equal(found[1:], found[:1])

    def test_numbers_of_samples_that_disagree_are_one_error(self):
        bundle, data = self.compile(True, "--cluster", "local:1"), self.data(sequences(True, labels=8))
        for flags in ([], ["--evaluate"]):
            self.refuse(DIAGNOSTICS, ["'x'", "'labels/y'", "13 samples (axis 1)", "8 (axis 1)"], "rannc-run", bundle, "-o",
                        self.scratch / "run", "--data", data, *flags)

    def test_lengths_that_disagree_name_both(self):
        tensors = sequences(True)
        dtype, (length, samples), data = tensors["labels/y"]
        tensors["labels/y"] = (dtype, [length - 1, samples], data[:8 * (length - 1) * samples])
        self.refuse(DIAGNOSTICS, ["'x'", "'labels/y'", "time"], "rannc-run", self.compile(True, "--cluster", "local:1"), "-o",
                    self.scratch / "run", "--data", self.data(tensors))

    def test_fewer_samples_than_a_mini_batch(self):
        self.refuse(DIAGNOSTICS, ["has 3 samples, one mini-batch needs 4"], "rannc-run", self.compile(True, "--cluster", "local:1"),
                    "-o", self.scratch / "run", "--data", self.data(sequences(True, samples=3)))

    def test_missing_input_without_samples(self):
        tensors = sequences(True)
        del tensors["x/temperature"]
        self.refuse(DIAGNOSTICS, ["'x/temperature'"], "rannc-run", self.compile(True, "--cluster", "local:1"), "-o",
                    self.scratch / "run", "--data", self.data(tensors))


class TextWithTimeFirst(programs.ProgramTest):
    def bundle(self, time_first):
        dims = [LENGTH, "batch"] if time_first else ["batch", LENGTH]
        path = onnx.write(self.scratch / f"{time_first}.onnx",
                          [onnx.node("Gather", ["table", "ids"], ["rows"], "embed"), onnx.node("MatMul", ["rows", "o"], ["logits"], "project")],
                          [onnx.tensor("table", [256, WIDTH], numbers(4, 256 * WIDTH)), onnx.tensor("o", [WIDTH, 256], numbers(5, WIDTH * 256))],
                          [onnx.value("ids", onnx.INT64, dims)], [onnx.value("logits", onnx.FLOAT, [*dims, 256])])
        bundle = self.scratch / f"{time_first}.rannc"
        self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic", "--dtype", "float64", "--mini-batch", MINI_BATCH,
                     "--loss", LOSS, "--cluster", "local:1")
        return bundle

    def test_places_lie_on_the_other_axis(self):
        text = self.scratch / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog " * 20)
        found = []
        for time_first in (False, True):
            folder = self.scratch / f"run-{time_first}"
            done = self.succeed("rannc-run", self.bundle(time_first), "-o", folder, "--text", text, "--steps", 5)
            self.assertIn("tokens/s", done.stdout)
            found.append([float.fromhex(line.split()[1]) for line in (folder / "losses.txt").read_text().splitlines()])
        for ours, theirs in zip(found[1], found[0], strict=True):
            self.assertLess(abs(ours - theirs), LIMIT * abs(theirs))


if __name__ == "__main__":
    programs.main()
