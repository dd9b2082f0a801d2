"""What a training run leaves as it is, though its user may expect otherwise, is named: nothing to train is an error."""
import struct

import programs
import small_onnx as onnx

DIAGNOSTICS = 1
LOSS = "cross_entropy(output=logits,labels=y)"


class Untrained(programs.ProgramTest):
    def write(self, nodes, initializers, outputs=("logits",)):
        return onnx.write(self.scratch / "model.onnx", nodes, initializers, [onnx.value("x", onnx.FLOAT, ["batch", 4])],
                          [onnx.value(name, onnx.FLOAT, ["batch", 3]) for name in outputs])

    def compile(self, model, *flags, loss=LOSS):
        bundle = self.scratch / "model.rannc"
        return bundle, self.run_program("rannc-compile", model, "-o", bundle, "--replace", "--costs", "analytic", "--cluster", "local:1",
                                        "--loss", loss, "--mini-batch", 4, *flags)

    def quantized(self, name, shape):
        count = shape[0] * shape[1]
        return ([onnx.tensor(name, shape, [i % 7 - 3 for i in range(count)], onnx.INT8), onnx.tensor(name + "_scale", [], [0.1]),
                 onnx.tensor(name + "_zero", [], [0], onnx.INT8)],
                onnx.node("DequantizeLinear", [name, name + "_scale", name + "_zero"], [name + "_float"], name + "_dequantized"))

    def test_integer_weights_alone_are_nothing_to_train(self):
        stored, node = self.quantized("w", [4, 3])
        model = self.write([node, onnx.node("MatMul", ["x", "w_float"], ["logits"], "m")], stored)
        bundle, done = self.compile(model)
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
        for part in ("model.onnx", "there is nothing to train", "1 tensor of integers read by DequantizeLinear", "not trained: w;"):
            self.assertIn(part, done.stderr)
        self.assertFalse(bundle.exists())
        self.succeed("rannc-compile", model, "-o", bundle, "--costs", "analytic")

    def test_integer_weights_beside_others_are_named(self):
        stored, node = self.quantized("w", [4, 3])
        model = self.write([node, onnx.node("MatMul", ["x", "w_float"], ["h"], "m"), onnx.node("MatMul", ["h", "v"], ["logits"], "n")],
                           [*stored, onnx.tensor("v", [3, 3], range(9))])
        _, done = self.compile(model)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: 1 tensor of integers read by DequantizeLinear or a cast is not trained: w;", done.stderr)

    def test_constants_alone_are_nothing_to_train(self):
        model = self.write([onnx.node("MatMul", ["x", "w"], ["logits"], "m")], [onnx.tensor("w", [4, 3], range(12))])
        _, done = self.compile(model, "--freeze", "*")
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
        self.assertIn("there is nothing to train", done.stderr)
        self.assertIn("--train PATTERN", done.stderr)

    def two_heads(self):
        return self.write([onnx.node("MatMul", ["x", "w"], ["h"], "m"), onnx.node("MatMul", ["h", "v"], ["logits"], "n"),
                           onnx.node("MatMul", ["h", "u"], ["side"], "s")],
                          [onnx.tensor("w", [4, 3], [i / 10 for i in range(12)]), onnx.tensor("v", [3, 3], [i / 9 for i in range(9)]),
                           onnx.tensor("u", [3, 3], [i / 8 for i in range(9)])], ("logits", "side"))

    def test_parameters_beside_the_loss_are_named_and_stay(self):
        bundle, done = self.compile(self.two_heads(), "--optimizer", "adamw")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: no gradient reaches 1 of 3 parameters, which stays as it is in the file: u", done.stderr)
        data = self.scratch / "data.safetensors"
        programs.write_safetensors(data, {"x/x": ("F32", [4, 4], struct.pack("<16f", *[i / 7 for i in range(16)])),
                                          "labels/y": ("I64", [4], struct.pack("<4q", 0, 1, 2, 0))})
        for clip in ([], ["--clip-norm", 0.5]):
            trained = self.scratch / f"trained-{len(clip)}.safetensors"
            self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--replace", "--data", data, "--steps", 3, "--weight-decay", 0.5,
                         "--learning-rate", 0.1, "--export-weights", trained, *clip)
            found = programs.read_safetensors(trained)
            self.assertEqual(found["u"][2], struct.pack("<9f", *[i / 8 for i in range(9)]), "weight decay leaves it alone")
            self.assertNotEqual(found["v"][2], struct.pack("<9f", *[i / 9 for i in range(9)]))

    def test_gradients_that_the_user_stops(self):
        _, done = self.compile(self.two_heads(), "--stop-gradient", "h")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no gradient reaches 2 of 3 parameters", done.stderr)
        self.assertIn("exported without gradients at", done.stderr)


if __name__ == "__main__":
    programs.main()
