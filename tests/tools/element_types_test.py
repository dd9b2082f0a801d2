"""Files in float16 and bfloat16, with int8 and truth values among their constants, train as they are."""
import random

import programs
import small_onnx as onnx

STEPS, SAMPLES, WIDTH, HIDDEN = 4, 64, 8, 16
TYPES = {"float16": (onnx.FLOAT16, "F16", 2**-11), "bfloat16": (onnx.BFLOAT16, "BF16", 2**-8)}


class ElementTypes(programs.ProgramTest):
    def model(self, kind, loss_inside):
        """relu(x w + b), where the mask says, else an int8 table in 128ths; times v."""
        rng = random.Random(5)

        def drawn(name, *shape):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            return onnx.tensor(name, shape, [rng.gauss(0, 0.3) for _ in range(size)], kind)

        cast = onnx.number_attribute("to", kind)
        nodes = [
            onnx.node("MatMul", ["x", "w"], ["xw"], "first"),
            onnx.node("Add", ["xw", "b"], ["biased"], "bias"),
            onnx.node("Relu", ["biased"], ["positive"], "relu"),
            onnx.node("Cast", ["table"], ["whole"], "cast", cast),
            onnx.node("Div", ["whole", "scale"], ["filled"], "scaled"),
            onnx.node("Where", ["mask", "positive", "filled"], ["chosen"], "where"),
            onnx.node("MatMul", ["chosen", "v"], ["y"], "second"),
        ]
        inputs, outputs = [onnx.value("x", kind, ["batch", WIDTH])], [onnx.value("y", kind, ["batch", WIDTH])]
        if loss_inside:
            nodes += [
                onnx.node("Sub", ["y", "target"], ["off"], "off"),
                onnx.node("Abs", ["off"], ["size"], "size"),
                onnx.node("ReduceMean", ["size"], ["loss"], "mean", onnx.number_attribute("keepdims", 0)),
            ]
            inputs.append(onnx.value("target", kind, ["batch", WIDTH]))
            outputs = [onnx.value("loss", kind, [])]
        initializers = [
            drawn("w", WIDTH, HIDDEN), drawn("b", HIDDEN), drawn("v", HIDDEN, WIDTH),
            onnx.tensor("mask", [HIDDEN], [i % 3 != 0 for i in range(HIDDEN)], onnx.BOOL),
            onnx.tensor("table", [HIDDEN], [16 * i - 120 for i in range(HIDDEN)], onnx.INT8),
            onnx.tensor("scale", [], [128.0], kind),
        ]
        return onnx.write(self.scratch / f"model-{kind}-{loss_inside}.onnx", nodes, initializers, inputs, outputs)

    def train(self, model, data, loss, name, *flags):
        bundle, log = self.scratch / f"{name}.rannc", self.scratch / f"{name}.log"
        self.succeed("rannc-compile", model, "-o", bundle, "--loss", loss, "--costs", "analytic", "--mini-batch", SAMPLES,
                     "--optimizer", "sgd", *flags)
        self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--data", data, "--steps", STEPS, "--loss-log", log,
                     "--learning-rate", "0.0625")
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

    def expect_losses(self, type_name, loss_inside):
        kind, format_name, unit = TYPES[type_name]
        rng = random.Random(7)
        loss = "in_graph(output=loss)" if loss_inside else "l1(output=y,labels=target)"
        target = "x/target" if loss_inside else "labels/target"
        drawn = [onnx.rounded(kind, [rng.gauss(0, 1) for _ in range(SAMPLES * WIDTH)]) for _ in range(2)]

        def written(name, of_x, of_target):
            path = self.scratch / f"{name}.safetensors"
            programs.write_safetensors(path, {
                entry: (spelling, [SAMPLES, WIDTH], onnx.raw(own, values))
                for entry, (own, spelling), values in (("x/x", of_x, drawn[0]), (target, of_target, drawn[1]))})
            return path

        own = kind, format_name
        data = written(type_name, own, own if loss_inside else (onnx.FLOAT, "F32"))
        double = written(f"{type_name}-double", (onnx.DOUBLE, "F64"), (onnx.DOUBLE, "F64"))
        model = self.model(kind, loss_inside)
        one = self.train(model, data, loss, f"{type_name}-one", "--cluster", "local:1", "--micro-batches", 1)
        wide = self.train(model, double, loss, f"{type_name}-wide", "--cluster", "local:1", "--micro-batches", 1, "--dtype", "float64")
        cut = self.train(model, data, loss, f"{type_name}-cut", "--cluster", "local:2", "--stages", 2, "--micro-batches", SAMPLES)
        spread = self.train(model, data, loss, f"{type_name}-spread", "--cluster", "local:2", "--replicas", 2, "--micro-batches", 8)
        self.assertLess(one[-1], 0.99 * one[0])
        for losses in (one, cut, spread):
            self.assertEqual(len(losses), STEPS)
            for own, exact in zip(losses, wide):
                self.assertLess(abs(own - exact), 2 * unit * exact, (losses, wide))
        # Samples' parts are the same numbers whatever the cut: their sum in the model's type would be off by its last place.
        for losses in (cut, spread):
            self.assertLess(abs(losses[0] - one[0]), 1e-6 * one[0], (losses, one))

    def test_float16(self):
        self.expect_losses("float16", loss_inside=False)

    def test_bfloat16(self):
        self.expect_losses("bfloat16", loss_inside=False)

    def test_losses_that_the_file_computes(self):
        for name in TYPES:
            with self.subTest(name):
                self.expect_losses(name, loss_inside=True)


if __name__ == "__main__":
    programs.main()
