"""Whether a run names the task that made the first number that is not finite, whichever process runs it."""
import struct

import programs
import small_onnx as onnx

DIAGNOSTICS = 1


class FindNonfinite(programs.ProgramTest):
    def bundle(self):
        """y = tanh(x w) v m / m in two stages, whose second has the division."""
        nodes = [onnx.node("MatMul", ["x", "w"], ["a"], "first"), onnx.node("Tanh", ["a"], ["b"], "curve"),
                 onnx.node("MatMul", ["b", "v"], ["c"], "second"), onnx.node("Mul", ["c", "m"], ["d"], "scaled"),
                 onnx.node("Div", ["d", "m"], ["y"], "ratio")]
        weights = [onnx.tensor(name, [4, 4], [0.1 * i for i in range(16)]) for name in "wv"]
        values = [onnx.value(name, onnx.FLOAT, ["n", 4]) for name in ("x", "m", "y")]
        model = onnx.write(self.scratch / "ratio.onnx", nodes, weights, values[:2], values[2:])
        self.succeed("rannc-compile", model, "-o", self.scratch / "ratio.rannc", "--cluster", "local:2", "--stages", 2, "--mini-batch", 8,
                     "--micro-batches", 2, "--loss", "mse(output=y,labels=t)", "--costs", "analytic", "--schedule", "1f1b")
        return self.scratch / "ratio.rannc"

    def samples(self, zero):
        """Four mini-batches; `zero`: a sample in which m is 0 once."""
        m = [0.0 if i == 4 * zero + 1 else 1.0 for i in range(128)]
        path = self.scratch / "samples.safetensors"
        rows = {"x/x": [0.01 * i for i in range(128)], "x/m": m, "labels/t": [0.0] * 128}
        programs.write_safetensors(path, {name: ("F32", [32, 4], struct.pack("<128f", *row)) for name, row in rows.items()})
        return path

    def test_the_task_is_named(self):
        bundle, data = self.bundle(), self.samples(zero=22)
        command = ["rannc-run", bundle, "-o", self.scratch / "run", "--data", data, "--steps", 4]
        for more in ([], ["--clip-norm", 1, "--transport", "gloo"]):
            done = self.refuse(DIAGNOSTICS, ["in step 2, the loss is NaN", " core.div (ratio), stage 1, forward pass, micro-batch 1: 1 NaN and 0 infinite "
                                             "of 16 elements, shape [4, 4], from finite inputs"], *command, "--find-nonfinite", *more)
            self.assertEqual(done.stderr.count("ratio"), 1, done.stderr)
        self.refuse(DIAGNOSTICS, ["step 2: the loss is "], *command)
        self.refuse(DIAGNOSTICS, ["--find-nonfinite: engine native"], *command, "--find-nonfinite", "--engine", "native")
        self.refuse(DIAGNOSTICS, ["--find-nonfinite: nothing is trained"], *command, "--find-nonfinite", "--evaluate")

    def test_a_finite_run_is_the_same_run(self):
        bundle, data = self.bundle(), self.samples(zero=-1)
        for name, more in (("plain", []), ("examined", ["--find-nonfinite"])):
            self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--data", data, "--steps", 6, *more)
        plain, examined = (self.scratch / name for name in ("plain", "examined"))
        self.assertEqual((plain / "losses.txt").read_text(), (examined / "losses.txt").read_text())
        for path in (plain / "checkpoints" / "step-6").iterdir():
            self.assertEqual(path.read_bytes(), (examined / "checkpoints" / "step-6" / path.name).read_bytes(), path.name)


if __name__ == "__main__":
    programs.main()
