"""What a file says is taken at its word: a batch that is a number, merged initial values, labels of 32 bits. [R1 R10]"""
import array
import json
import math
import re
import struct

import programs
import small_onnx as onnx

MLP = programs.DATA / "small_mlp" / "model.onnx"
LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
DIAGNOSTICS = 1


class FixedBatch(programs.ProgramTest):
    """Where the number of samples stays in the file there is one micro-batch, one replica, and the mini-batch is the file's own."""

    def setUp(self):
        super().setUp()
        text = self.succeed("rannc-compile", MLP, "--emit=graph").stdout
        text = re.sub(r"^batch .*\n", "", text, flags=re.MULTILINE).replace("[batch,", "[8,").replace(" samples 0", "")
        self.assertNotRegex(text, r"\bbatch\b(?!\.)")
        self.model = self.scratch / "fixed.rir"
        self.model.write_text(text)

    def flags(self, *more):
        costs = [] if "--costs" in more else ["--costs", "analytic"]
        return ["rannc-compile", self.model, "--loss", LOSS, *costs, "--cluster", "local:4", "--emit=plan", *more]

    def summary(self, *more):
        return json.loads(self.succeed(*self.flags("--summary=json", *more)).stdout.splitlines()[-1])

    def test_a_symbol_splits_it(self):
        found = self.summary("--stages", 2, "--micro-batches", 3)
        self.assertEqual((found["mini_batch"], found["micro_batches"]), (8, 3))
        found = self.summary("--replicas", "2,1", "--mini-batch", 32)
        self.assertEqual((found["mini_batch"], [len(stage["devices"]) for stage in found["stages"]]), (32, [2, 1]))

    def test_plans_keep_it_whole(self):
        for more in ([], ["--mini-batch", 8], ["--stages", 2], ["--stages", 3, "--micro-batches", 1], ["--stages", 2, "--replicas", "1,1"]):
            found = self.summary("--skip-pass", "rebatch", *more)
            self.assertEqual((found["mini_batch"], found["micro_batches"]), (8, 1), more)
            self.assertTrue(all(len(stage["devices"]) == 1 for stage in found["stages"]), more)

    def test_what_splits_it_is_refused(self):
        for more, part in [(["--mini-batch", 32], "a mini-batch of 32"), (["--micro-batches", 3], "3 micro-batches"),
                           (["--replicas", "2,1"], "replicas 2,1"), (["--mini-batch", 16, "--costs", "measured"], "a mini-batch of 16")]:
            self.refuse(DIAGNOSTICS, ["model.onnx", "mini-batch of 8 cannot be split", part, "P15"], *self.flags("--skip-pass", "rebatch", *more))


class MergedInitialValues(programs.ProgramTest):
    """Two layers whose zero biases the exporter merged."""

    def model(self, second_bias, names=("/layers.0/Gemm", "/layers.1/Gemm")):
        nodes = [onnx.node("Gemm", ["x", "v", "zero"], ["h"], names[0]), onnx.node("Gemm", ["h", "w", second_bias], ["logits"], names[1])]
        tensors = [onnx.tensor("v", [2, 2], [1, 2, 3, 4]), onnx.tensor("w", [2, 2], [5, 6, 7, 8]), onnx.tensor("zero", [2], [0, 0]),
                   onnx.tensor("other", [2], [0, 0])]
        return onnx.write(self.scratch / "merged.onnx", nodes, tensors, [onnx.value("x", onnx.FLOAT, ["batch", 2])],
                          [onnx.value("logits", onnx.FLOAT, ["batch", 2])])

    def flags(self, model):
        return ["rannc-compile", model, "--loss", "cross_entropy(output=logits)", "--costs", "analytic", "--emit=plan", "--summary=json"]

    def test_modules_tell_them_apart(self):
        done = self.succeed(*self.flags(self.model("zero")))
        self.assertIn("separated 1 tensors that the exporter had merged with equal ones", done.stderr)
        self.assertIn('state "layers.0.bias" [2] = %zero', done.stdout)
        self.assertNotIn("had merged with equal ones", self.succeed(*self.flags(self.model("other"))).stderr)

    def test_what_nothing_tells_apart_is_refused(self):
        model = self.model("zero", ("first", "second"))
        told = "parameter 'zero' is read by 2 modules (first, second): the exporter merged"
        self.refuse(1, [told, "--allow-merged"], *self.flags(model))
        done = self.succeed(*self.flags(model), "--allow-merged")
        self.assertIn("warning: " + told, done.stderr)
        warnings = json.loads(done.stdout.splitlines()[-1])["warnings"]
        self.assertEqual(sum(told in warning for warning in warnings), 1, warnings)

    def test_they_may_be_evaluated(self):
        model = self.model("zero", ("first", "second"))
        done = self.succeed("rannc-compile", model, "--costs", "analytic", "--emit=plan")
        self.assertIn("warning: parameter 'zero' is read by 2 modules", done.stderr)


class Frozen(programs.ProgramTest):
    """Of two layers the first is not trained: no task computes its gradient, and its numbers stay."""

    def setUp(self):
        super().setUp()
        nodes = [onnx.node("Gemm", ["x", "body.weight", "body.bias"], ["h"], "/body/Gemm"), onnx.node("Gemm", ["h", "head.weight"], ["y"], "/head/Gemm")]
        tensors = [onnx.tensor("body.weight", [2, 2], [1, 2, 3, 4]), onnx.tensor("body.bias", [2], [1, -1]), onnx.tensor("head.weight", [2, 2], [5, 6, 7, 8])]
        self.model = onnx.write(self.scratch / "two.onnx", nodes, tensors, [onnx.value("x", onnx.FLOAT, ["batch", 2])],
                                [onnx.value("y", onnx.FLOAT, ["batch", 2])])

    def flags(self, *more):
        return ["rannc-compile", self.model, "--loss", "mse(output=y,labels=t)", "--costs", "analytic", "--mini-batch", 4, *more]

    def test_no_gradient_is_computed(self):
        def products(*more):
            return self.succeed(*self.flags("--emit=backward", *more)).stdout.count("core.matmul") + \
                self.succeed(*self.flags("--emit=backward", *more)).stdout.count("core.linear")
        self.assertLess(products("--freeze", "body.*"), products())
        self.assertEqual(products("--freeze", "body.*", "--train", "body.weight,body.bias"), products())

    def test_numbers_stay(self):
        bundle, weights, data = self.scratch / "two.rannc", self.scratch / "w.safetensors", self.scratch / "data.safetensors"
        programs.write_safetensors(data, {"x/x": ("F32", [4, 2], array.array("f", range(8)).tobytes()),
                                          "labels/t": ("F32", [4, 2], bytes(32))})
        self.succeed(*self.flags("-o", bundle, "--freeze", "body.*"))
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", data, "--steps", 3, "--learning-rate", 0.001,
                     "--export-weights", weights)
        numbers = {name: list(array.array("f", raw)) for name, (_, _, raw) in programs.read_safetensors(weights).items()}
        self.assertEqual((numbers["body.weight"], numbers["body.bias"]), ([1, 2, 3, 4], [1, -1]))
        self.assertNotEqual(numbers["head.weight"], [5, 6, 7, 8])

    def test_a_pattern_without_a_match_is_refused(self):
        for flag in ("--freeze", "--train", "--buffer", "--tie", "--untie"):
            self.refuse(1, ["'neck.*'"], *self.flags("--emit=plan", flag, "neck.*"))


LOSS_TEXT = """rannc.graph 1
graph "loss"
batch batch
input %coarse: f32[batch,3] samples 0
input %c: f32[batch,3] samples 0
inputs [%coarse, %c]
#0 %d: f32[batch,3] samples 0 = core.sub(%coarse, %c)
#1 %q: f32[batch,3] samples 0 = core.mul(%d, %d)
#2 %l: f32[] = core.mean(%q) {keepdim = false}
outputs [%l]
"""


class LossAsText(programs.ProgramTest):
    def test_it_is_the_loss_that_the_text_says(self):
        loss = self.scratch / "loss.rir"
        loss.write_text(LOSS_TEXT)
        graph = self.succeed("rannc-compile", programs.SOURCE / "tests" / "data" / "small_regression" / "model.onnx", "--loss-graph", loss,
                             "--emit", "graph").stdout
        self.assertIn("core.mse_sum(%coarse, %labels/c)", graph)
        self.assertIn("divisor 0", graph)


class Labels(programs.ProgramTest):
    """A loss inside the graph over int32 labels, of which none is ignored."""

    WEIGHTS = [0.5, -1.0, 0.25, 1.0, -0.5, 0.75]
    X = [1.0, 2.0, -1.0, 0.5, 0.0, 1.5, 2.0, -2.0]

    def setUp(self):
        super().setUp()
        nodes = [onnx.node("MatMul", ["x", "w"], ["logits"], "head"),
                 onnx.node("SoftmaxCrossEntropyLoss", ["logits", "y"], ["loss"], "loss")]
        model = onnx.write(self.scratch / "labels.onnx", nodes, [onnx.tensor("w", [2, 3], self.WEIGHTS)],
                           [onnx.value("x", onnx.FLOAT, ["batch", 2]), onnx.value("y", onnx.INT32, ["batch"])],
                           [onnx.value("loss", onnx.FLOAT, [])])
        self.bundle = self.scratch / "labels.rannc"
        self.succeed("rannc-compile", model, "-o", self.bundle, "--loss", "in_graph(output=loss)", "--costs", "analytic", "--mini-batch", 4,
                     "--micro-batches", 2, "--stages", 1)

    def run_with(self, labels):
        data = self.scratch / "batch.safetensors"
        programs.write_safetensors(data, {"x/x": ("F32", [4, 2], struct.pack("<8f", *self.X)),
                                          "x/y": ("I32", [4], struct.pack("<4i", *labels))})
        log = self.scratch / "log"
        return log, programs.run("rannc-run", self.bundle, "-o", self.scratch / "run", "--data", data, "--steps", 1, "--loss-log", log)

    def expected(self, labels):
        total = 0.0
        for sample, label in enumerate(labels):
            x = self.X[2 * sample:2 * sample + 2]
            logits = [x[0] * self.WEIGHTS[c] + x[1] * self.WEIGHTS[3 + c] for c in range(3)]
            total += math.log(sum(map(math.exp, logits))) - logits[label]
        return total / len(labels)

    def test_loss_is_the_mean_over_all(self):
        labels = [0, 2, 1, 2]
        log, done = self.run_with(labels)
        self.assertEqual(done.returncode, 0, done.stderr)
        loss = float.fromhex(log.read_text().split()[-1])
        self.assertAlmostEqual(loss, self.expected(labels), delta=1e-6, msg="float32 of a few terms")

    def test_negative_labels_are_an_error(self):
        for label in (-1, -100, -2**31):
            _, done = self.run_with([0, label, 1, 2])
            self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
            self.assertIn(f"'y': error: holds {label} in sample 1, but the classes are 0 to 2", done.stderr)
            self.assertEqual(done.stderr.count("error: "), 1, done.stderr)


if __name__ == "__main__":
    programs.main()
