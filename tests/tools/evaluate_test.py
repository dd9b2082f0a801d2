"""Without a loss the plain commands evaluate: every output, whatever the plan, is that of one process."""
import json
import math
import shutil
import struct

import programs
import small_onnx as onnx

SAMPLES, MINI_BATCH = 13, 4  # three mini-batches of four and one of one
FORMATS = {"F32": "f", "F64": "d", "I64": "q"}
# Sums of doubles in another order.
LIMIT = 1e-12


def numbers(tensor):
    dtype, _, data = tensor
    return struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data)


def repeated(tensor, samples):
    """The samples of a tensor over and over, every float a little larger than the time before: none equals another."""
    dtype, shape, _ = tensor
    values, own = numbers(tensor), len(numbers(tensor)) // shape[0]
    grown = [(1 + i // len(values) / 8) * values[i % len(values)] if dtype != "I64" else values[i % len(values)]
             for i in range(samples * own)]
    return dtype, [samples, *shape[1:]], struct.pack(f"<{len(grown)}{FORMATS[dtype]}", *grown)


def distance(found, expected):
    return math.dist(found, expected) / max(math.hypot(*expected), 1e-300)


class EvaluateTest(programs.ProgramTest):
    def compile(self, model, name, *flags):
        bundle = self.scratch / f"{name}.rannc"
        done = self.succeed("rannc-compile", model, "-o", bundle, "--costs", "analytic", *flags)
        return bundle, done.stdout

    def samples(self, folder, samples=SAMPLES, without=()):
        tensors = programs.read_safetensors(folder / "batch.safetensors")
        path = self.scratch / f"{folder.name}-{samples}-{len(without)}.safetensors"
        programs.write_safetensors(path, {name: repeated(tensor, samples) for name, tensor in tensors.items()
                                          if not name.startswith(tuple(without) or "no such")})
        return path

    def evaluate(self, bundle, data, *flags):
        """The outputs by name, what was printed, and the loss if there is one."""
        folder = self.scratch / f"run-{len(list(self.scratch.iterdir()))}"
        done = self.succeed("rannc-run", bundle, "-o", folder, "--data", data, *flags)
        path = folder / "outputs.safetensors"
        self.assertEqual([entry.name for entry in folder.iterdir() if "outputs" in entry.name], [path.name], "no part is left")
        return programs.read_safetensors(path), done.stdout, programs.read_metadata(path)


class PlainTest(EvaluateTest):
    """`rannc-compile model.onnx`, `rannc-run model.rannc --data file`: no flag beside."""
    executed = programs.Resident.PROGRAMS

    def expect_reference(self, folder):
        scratch = self.scratch / folder.name
        scratch.mkdir()
        for file in folder.iterdir():  # weights may lie beside the model
            shutil.copy(file, scratch)
        compiled = self.succeed("rannc-compile", scratch / "model.onnx").stdout
        self.assertIn("evaluates it", compiled)
        self.assertIn("--loss 'cross_entropy(output=", compiled)
        printed = self.succeed("rannc-run", scratch / "model.rannc", "--data", scratch / "batch.safetensors").stdout
        self.assertIn("has no loss, so it was evaluated; to train, compile with a loss", printed)
        outputs = programs.read_safetensors(scratch / "model.run" / "outputs.safetensors")
        card = json.loads((folder / "card.json").read_text())
        self.assertEqual(sorted(outputs), sorted(card["outputs"]))
        reference = programs.read_safetensors(folder / "reference.safetensors")
        for name, tensor in outputs.items():
            self.assertEqual(tensor[1][0], 8, name)
            self.compare(name, numbers(tensor), reference)

    def compare(self, name, found, reference):
        part = "" if f"out.f64/{name}" in reference else ".at64"
        if part:
            count = min(64, len(found))
            found = [found[i * len(found) // count] for i in range(count)]
        exact, single = (numbers(reference[f"out.{tag}{part}/{name}"]) for tag in ("f64", "f32"))
        allowed = 2 * math.dist(single, exact) + 1e-6 * math.hypot(*exact)
        self.assertLessEqual(math.dist(found, exact), allowed, name)


class PlainCommand(PlainTest):
    def test_small_models(self):
        for name in ("small_mlp", "small_gpt", "small_regression"):
            with self.subTest(model=name):
                self.expect_reference(programs.DATA / name)


class AnyPlan(EvaluateTest):
    """All samples in file order, the last mini-batch smaller, as one process makes them."""
    PLANS = {"stages": ["--stages", 2, "--micro-batches", 2, "--cluster", "local:2", "--replicas", "1,1"],
             "replicas": ["--stages", 1, "--micro-batches", 1, "--cluster", "local:2", "--replicas", 2],
             "both": ["--stages", 2, "--micro-batches", 2, "--cluster", "local:3", "--replicas", "2,1"]}

    def expect_equal(self, folder, transports, *flags):
        data = self.samples(folder)
        flags = ["--dtype", "float64", "--mini-batch", MINI_BATCH, "--replace", *flags]
        one, _ = self.compile(folder / "model.onnx", "one", "--stages", 1, "--micro-batches", 1, "--cluster", "local:1", *flags)
        expected, printed, _ = self.evaluate(one, data)
        self.assertIn(f"evaluated {SAMPLES} samples", printed)
        whole, _ = self.compile(folder / "model.onnx", "whole", "--stages", 1, "--micro-batches", 1, "--cluster", "local:1",
                                "--dtype", "float64", "--mini-batch", SAMPLES, "--replace")
        self.expect_close(self.evaluate(whole, data)[0], expected)
        for name, plan in self.PLANS.items():
            bundle, _ = self.compile(folder / "model.onnx", name, *plan, *flags)
            for transport in transports:
                with self.subTest(model=folder.name, plan=name, transport=transport):
                    self.expect_close(self.evaluate(bundle, data, "--transport", transport)[0], expected)

    def expect_close(self, found, expected):
        self.assertEqual({name: (dtype, shape) for name, (dtype, shape, _) in found.items()},
                         {name: (dtype, shape) for name, (dtype, shape, _) in expected.items()})
        for name, tensor in expected.items():
            self.assertEqual(tensor[1][0], SAMPLES)
            self.assertLessEqual(distance(numbers(found[name]), numbers(tensor)), LIMIT, name)

    def test_threads(self):
        for name in ("small_gpt", "small_conv"):
            self.expect_equal(programs.DATA / name, ["local"])

    def test_processes(self):
        self.expect_equal(programs.DATA / "small_regression", ["gloo"])


class WithLoss(EvaluateTest):
    FOLDER = programs.DATA / "small_mlp"

    def bundle(self, *flags, dtype="float64"):
        return self.compile(self.FOLDER / "model.onnx", "trained", "--loss", "cross_entropy(output=logits,labels=y,ignore_index=-100)",
                            "--dtype", dtype, "--cluster", "local:2", "--stages", 2, "--replicas", "1,1", "--optimizer", "sgd", *flags)[0]

    def test_the_loss_is_that_of_all_samples(self):
        data = self.samples(self.FOLDER)
        parts = self.bundle("--mini-batch", MINI_BATCH)
        found, printed, metadata = self.evaluate(parts, data, "--evaluate")
        self.assertIn("; loss ", printed)
        self.assertNotIn("to train", printed)
        (self.scratch / "trained.rannc").rename(self.scratch / "parts.rannc")
        whole = self.evaluate(self.bundle("--mini-batch", SAMPLES), data, "--evaluate")
        loss, expected = (float.fromhex(of["loss"]) for of in (metadata, whole[2]))
        self.assertLessEqual(abs(loss - expected), LIMIT * expected)
        self.assertGreater(expected, 1)
        self.assertLessEqual(distance(numbers(found["logits"]), numbers(whole[0]["logits"])), LIMIT)
        processes = self.evaluate(self.scratch / "parts.rannc", data, "--evaluate", "--transport", "gloo")
        self.assertEqual(processes[2]["loss"], metadata["loss"])

    def test_a_sum_is_that_of_all_samples(self):
        data = self.samples(self.FOLDER)
        losses = []
        for batch in (MINI_BATCH, SAMPLES):
            bundle, _ = self.compile(self.FOLDER / "model.onnx", f"sum{batch}", "--dtype", "float64", "--cluster", "local:1", "--mini-batch",
                                     batch, "--loss", "cross_entropy(output=logits,labels=y,ignore_index=-100,reduction=sum)")
            losses.append(float.fromhex(self.evaluate(bundle, data, "--evaluate")[2]["loss"]))
        parts, whole = losses
        self.assertLessEqual(abs(parts - whole), LIMIT * whole)

    def test_labels_may_be_missing(self):
        bundle = self.bundle("--mini-batch", MINI_BATCH)
        labelled, _, _ = self.evaluate(bundle, self.samples(self.FOLDER), "--evaluate")
        for transport in ("local", "gloo"):
            found, printed, metadata = self.evaluate(bundle, self.samples(self.FOLDER, without=["labels/"]), "--evaluate",
                                                     "--transport", transport)
            self.assertEqual(found, labelled)
            self.assertNotIn("loss", metadata)
            self.assertIn("there is no loss", printed)

    def test_trained_weights_are_evaluated(self):
        data = self.samples(self.FOLDER)
        bundle = self.bundle("--mini-batch", MINI_BATCH, dtype="float32")
        before = float.fromhex(self.evaluate(bundle, data, "--evaluate")[2]["loss"])
        folder = self.scratch / "training"
        self.succeed("rannc-run", bundle, "-o", folder, "--data", data, "--steps", 30, "--optimizer", "sgd", "--learning-rate", "0.3")
        self.succeed("rannc-run", bundle, "-o", folder, "--data", data, "--evaluate", "--resume")
        after = float.fromhex(programs.read_metadata(folder / "outputs.safetensors")["loss"])
        self.assertLess(after, 0.9 * before)


class FixedBatch(EvaluateTest):
    """Models exported for eight samples that stay so: whole mini-batches of the file's own size, nothing padded."""

    def model(self, turned, *flags):
        path = self.scratch / "fixed.onnx"
        nodes = [onnx.node("MatMul", ["x", "w"], ["h"], "m"),
                 onnx.node("Transpose" if turned else "Relu", ["h"], ["y"], "last")]
        onnx.write(path, nodes, [onnx.tensor("w", [3, 2], [1, -2, 3, -4, 5, -6])], [onnx.value("x", onnx.FLOAT, [8, 3])],
                   [onnx.value("y", onnx.FLOAT, [2, 8] if turned else [8, 2])])
        return self.compile(path, "fixed", "--replace", *(flags or ("--skip-pass", "rebatch")))[0]

    def data(self, samples):
        path = self.scratch / f"{samples}.safetensors"
        programs.write_safetensors(path, {"x/x": ("F32", [samples, 3], struct.pack(f"<{3 * samples}f", *range(3 * samples)))})
        return path

    def judge(self, outputs, printed, samples):
        rows = [(3 * i, 3 * i + 1, 3 * i + 2) for i in range(samples)]
        expected = [max(0, a * row[0] + b * row[1] + c * row[2]) for row in rows for a, b, c in ((1, 3, 5), (-2, -4, -6))]
        self.assertEqual(outputs["y"][1], [samples, 2])
        self.assertEqual(list(numbers(outputs["y"])), expected)
        self.assertIn(f"evaluated {samples} samples", printed)

    def test_multiples(self):
        bundle = self.model(turned=False)
        for samples in (8, 24):
            outputs, printed, _ = self.evaluate(bundle, self.data(samples))
            self.judge(outputs, printed, samples)

    def test_what_would_be_left_over(self):
        bundle = self.model(turned=False)
        for samples in (4, 12):
            self.refuse(1, [f"has {samples} samples", "computes exactly 8 together", "4 would be left over"], "rannc-run", bundle,
                        "-o", self.scratch / "run", "--data", self.data(samples))

    def test_any_number_where_it_does_not_stay(self):
        bundle = self.model(False, "--mini-batch", "4")
        outputs, printed, _ = self.evaluate(bundle, self.data(11))
        self.judge(outputs, printed, 11)

    def test_outputs_that_do_not_count_samples_in_front(self):
        bundle = self.model(turned=True)
        self.assertEqual(self.evaluate(bundle, self.data(8))[0]["y"][1], [2, 8])
        self.refuse(1, ["has 16 samples", "axis 0 of its output 'y' does not count samples"], "rannc-run", bundle,
                    "-o", self.scratch / "run", "--data", self.data(16))


class UnusualOutputs(EvaluateTest):
    def write(self, nodes, inputs, outputs):
        return onnx.write(self.scratch / "model.onnx", nodes, [onnx.tensor("w", [3, 2], [1, -2, 3, -4, 5, -6])], inputs, outputs)

    def test_an_output_without_samples(self):
        nodes = [onnx.node("MatMul", ["x", "w"], ["y"], "m"), onnx.node("Neg", ["w"], ["n"], "n")]
        model = self.write(nodes, [onnx.value("x", onnx.FLOAT, ["batch", 3])],
                           [onnx.value("y", onnx.FLOAT, ["batch", 2]), onnx.value("n", onnx.FLOAT, [3, 2])])
        bundle, _ = self.compile(model, "model", "--mini-batch", MINI_BATCH)
        data = self.scratch / "data.safetensors"
        programs.write_safetensors(data, {"x/x": ("F32", [SAMPLES, 3], struct.pack(f"<{3 * SAMPLES}f", *range(3 * SAMPLES)))})
        outputs, _, _ = self.evaluate(bundle, data)
        self.assertEqual(outputs["y"][1], [SAMPLES, 2])
        self.assertEqual(numbers(outputs["n"]), (-1, 2, -3, 4, -5, 6))

    def test_a_loss_as_a_plain_output_is_that_of_the_whole_file(self):
        nodes = [onnx.node("MatMul", ["x", "w"], ["h"], "m"), onnx.node("SoftmaxCrossEntropyLoss", ["h", "t"], ["loss"], "nll")]
        model = self.write(nodes, [onnx.value("x", onnx.FLOAT, ["batch", 3]), onnx.value("t", onnx.INT64, ["batch"])],
                           [onnx.value("loss", onnx.FLOAT, [])])
        bundle = self.scratch / "model.rannc"
        done = self.succeed("rannc-compile", model, "-o", bundle, "--costs", "analytic")
        self.assertIn("train it with --loss 'in_graph(output=loss)'", done.stderr)
        self.compile(model, "trained", "--loss", "in_graph(output=loss)")
        for count in (1, 5):
            rows = [(0.1 * i, 0.2, -0.05 * i) for i in range(count)]
            data = self.scratch / f"{count}.safetensors"
            programs.write_safetensors(data, {"x/x": ("F32", [count, 3], struct.pack(f"<{3 * count}f", *sum(rows, ()))),
                                              "x/t": ("I64", [count], struct.pack(f"<{count}q", *([1] * count)))})
            scores = [(a + 3 * b + 5 * c, -2 * a - 4 * b - 6 * c) for a, b, c in rows]
            expected = sum(math.log(math.exp(no) + math.exp(yes)) - yes for no, yes in scores) / count
            self.assertAlmostEqual(numbers(self.evaluate(bundle, data)[0]["loss"])[0], expected, delta=1e-6)


class Errors(EvaluateTest):
    FOLDER = programs.DATA / "small_regression"

    def refuse_data(self, parts, change):
        tensors = programs.read_safetensors(self.FOLDER / "batch.safetensors")
        change(tensors)
        data = self.scratch / "spoiled.safetensors"
        programs.write_safetensors(data, tensors)
        folder = self.scratch / "run"
        self.refuse(1, parts, "rannc-run", self.bundle, "-o", folder, "--data", data)
        self.assertFalse((folder / "outputs.safetensors").exists())

    def test_data_that_does_not_fit(self):
        self.bundle, _ = self.compile(self.FOLDER / "model.onnx", "plain")
        self.refuse_data(["spoiled.safetensors", "has no tensor 'x/left'"], lambda t: t.pop("x/left"))
        self.refuse_data(["'left'", "f32[8,4]", "f32[batch,6]"], lambda t: t.update({"x/left": t["x/right"]}))
        self.refuse_data(["middle", "no such input", "left, right"], lambda t: t.update({"x/middle": t["x/right"]}))
        self.refuse_data(["has 7 samples", "has 8"], lambda t: t.update({"x/right": ("F32", [7, 4], t["x/right"][2][:7 * 16])}))
        self.refuse_data(["i64[8,4]", "f32[batch,4]"], lambda t: t.update({"x/right": ("I64", [8, 4], bytes(8 * 32))}))
        self.refuse_data(["has no samples"], lambda t: t.update({"x/left": ("F32", [0, 6], b""), "x/right": ("F32", [0, 4], b"")}))

    def test_text_is_for_training(self):
        bundle, _ = self.compile(self.FOLDER / "model.onnx", "plain")
        self.refuse(1, ["--text", "--data", "compile with a loss"], "rannc-run", bundle, "-o", self.scratch / "run", "--text", __file__)


if __name__ == "__main__":
    programs.main()
