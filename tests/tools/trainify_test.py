"""Files that were exported for inference train as their models do, by flags of rannc-compile and rannc-check."""
import array
import json
import math
import random
import shutil

import programs
import small_onnx as onnx

STEPS, SAMPLES = 3, 8
CLASSES = "cross_entropy(output=logits,labels=y)"
EXACT = 1e-12  # of float64, where sums are grouped otherwise


def floats(rng, *shape):
    return "F64", list(shape), array.array("d", [rng.gauss(0, 1) for _ in range(math.prod(shape))]).tobytes()


def integers(rng, below, count):
    return "I64", [count], array.array("q", [rng.randrange(below) for _ in range(count)]).tobytes()


class Runs(programs.ProgramTest):
    def bundle(self, name, model, loss, *flags):
        path = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", path, "--loss", loss, "--costs", "analytic", "--dtype", "float64",
                     "--mini-batch", SAMPLES, "--optimizer", "sgd", "--no-refine", *flags)
        return path

    def losses(self, name, model, loss, data, *flags, steps=STEPS, seed=0):
        """Of a run, whose weights lie in the folder of that name."""
        log = self.scratch / f"{name}.log"
        self.succeed("rannc-run", self.bundle(name, model, loss, *flags), "-o", self.scratch / name, "--data", data,
                     "--steps", steps, "--loss-log", log, "--learning-rate", "0.01", "--checkpoint-every", steps, "--seed", seed)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        self.assertEqual(len(losses), steps)
        return losses

    def weights(self, name, steps=STEPS):
        """{name: (type, shape, bytes)} of the last checkpoint."""
        found = {}
        for path in (self.scratch / name / "checkpoints" / f"step-{steps}").glob("*.safetensors"):
            found.update(programs.read_safetensors(path))
        return found

    def same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for own, other in zip(found, expected):
            self.assertLessEqual(abs(own - other), EXACT * abs(other), (found, expected))

    def same_however_it_is_cut(self, model, loss, data, *flags, prefix=""):
        """The losses, of any number of micro-batches, stages and replicas."""
        one = self.losses(f"{prefix}one", model, loss, data, "--cluster", "local:1", "--micro-batches", 1, *flags)
        cuts = {"micro-batches": ["--cluster", "local:1", "--micro-batches", 4],
                "stages": ["--cluster", "local:2", "--stages", 2, "--micro-batches", 2],
                "replicas": ["--cluster", "local:2", "--replicas", "2", "--micro-batches", 2]}
        for name, cut in cuts.items():
            with self.subTest(cut=name):
                self.same(self.losses(prefix + name, model, loss, data, *cut, *flags), one)
        return one


EPSILON = 1e-5


def convolutions(path, training, frozen=False):
    """Convolution, normalisation, rectifier, product; the normalisation in one of its forms."""
    rng = random.Random(3)
    weights = {"conv.weight": [4, 3, 3, 3], "bn.weight": [4], "bn.bias": [4], "bn.running_mean": [4], "fc.weight": [4, 5], "fc.bias": [5]}
    tensors = [onnx.tensor(name, shape, [rng.gauss(0, 1) for _ in range(math.prod(shape))]) for name, shape in weights.items()]
    tensors.append(onnx.tensor("bn.running_var", [4], [rng.uniform(0.5, 2) for _ in range(4)]))
    normalised = ["n", "new_mean", "new_var"] if training else ["n"]
    nodes = [onnx.node("Conv", ["x", "conv.weight"], ["c"], "/conv/Conv"),
             onnx.node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], normalised,
                       "/bn/BatchNormalization", onnx.number_attribute("training_mode", int(training))),
             onnx.node("Relu", ["n"], ["r"], "/Relu"), onnx.node("GlobalAveragePool", ["r"], ["a"], "/Pool"),
             onnx.node("Flatten", ["a"], ["f"], "/Flatten"), onnx.node("Gemm", ["f", "fc.weight", "fc.bias"], ["logits"], "/fc/Gemm")]
    if frozen:
        tensors += [onnx.tensor("column", [4], [1, -1, 1, 1], onnx.INT64), onnx.tensor("epsilon", [], [EPSILON]), onnx.tensor("one", [], [1.0])]
        nodes[1:2] = [onnx.node(op, inputs, [output], f"/bn/{output}") for op, inputs, output in (
            ("Reshape", ["bn.weight", "column"], "w"), ("Reshape", ["bn.bias", "column"], "b"), ("Reshape", ["bn.running_var", "column"], "v"),
            ("Reshape", ["bn.running_mean", "column"], "m"), ("Add", ["v", "epsilon"], "raised"), ("Sqrt", ["raised"], "root"),
            ("Div", ["one", "root"], "inverse"), ("Mul", ["w", "inverse"], "s"), ("Mul", ["m", "s"], "ms"), ("Sub", ["b", "ms"], "t"),
            ("Mul", ["c", "s"], "cs"), ("Add", ["cs", "t"], "n"))]
    return onnx.write(path, nodes, tensors, [onnx.value("x", onnx.FLOAT, ["batch", 3, 6, 6])],
                      [onnx.value("logits", onnx.FLOAT, ["batch", 5])])


class BatchNorm(Runs):
    def setUp(self):
        super().setUp()
        self.model = convolutions(self.scratch / "inference.onnx", training=False)
        self.data = self.scratch / "data.safetensors"
        rng = random.Random(1)
        programs.write_safetensors(self.data, {"x/x": floats(rng, SAMPLES, 3, 6, 6), "labels/y": integers(rng, 5, SAMPLES)})

    def test_both_forms_of_a_file_train_alike(self):
        training = convolutions(self.scratch / "training.onnx", training=True)
        for name, cut in (("one", ["--cluster", "local:1"]), ("two", ["--cluster", "local:2", "--stages", 2])):
            flags = [*cut, "--micro-batches", 2]
            with self.subTest(stages=name):
                expected = self.losses(f"training-{name}", training, CLASSES, self.data, *flags)
                self.assertEqual(self.losses(name, self.model, CLASSES, self.data, *flags, "--train-batch-norm"), expected)
                weights = self.weights(name)
                self.assertEqual(weights, self.weights(f"training-{name}"))
                self.assertIn("buffer/bn.running_mean", weights)
        left = self.losses("left", self.model, CLASSES, self.data, "--cluster", "local:1", "--micro-batches", 2)
        self.assertNotEqual(left, expected, "without the flag statistics are fixed")

    def frozen(self):
        """The same with x * (w / sqrt(v + e)) + (b - m * w / sqrt(v + e)) for the normalisation, as FrozenBatchNorm2d has it."""
        return convolutions(self.scratch / "frozen.onnx", training=False, frozen=True)

    def outputs(self, name, model, *flags):
        self.succeed("rannc-run", self.bundle(name, model, CLASSES, "--cluster", "local:1", *flags), "-o", self.scratch / name,
                     "--data", self.data, "--evaluate")
        (_, _, data), = programs.read_safetensors(self.scratch / name / "outputs.safetensors").values()
        return array.array("d", data)

    def test_arithmetic_that_is_a_normalisation_trains_where_a_pattern_names_it(self):
        frozen, flags = self.frozen(), ["--cluster", "local:1", "--micro-batches", 2]
        trained = self.losses("trained", frozen, CLASSES, self.data, *flags, "--train-batch-norm=bn")
        expected = self.losses("node", self.model, CLASSES, self.data, *flags, "--train-batch-norm", "--batch-norm-momentum", 0.1)
        self.same(trained, expected)
        self.assertIn("buffer/bn.running_mean", self.weights("trained"))
        self.same(self.outputs("arithmetic", frozen), self.outputs("recognised", frozen, "--train-batch-norm=bn"))
        self.refuse(1, ["1 are written out as arithmetic, which --train-batch-norm=PATTERN trains"], "rannc-compile", frozen, "-o",
                    self.scratch / "none", "--loss", CLASSES, "--train-batch-norm")

    def test_what_is_said(self):
        compile_it = ["rannc-compile", self.model, "--loss", CLASSES, "--emit=plan", "--costs", "analytic", "--mini-batch", SAMPLES]
        said = self.succeed(*compile_it).stderr
        self.assertIn("1 batch normalisations use fixed statistics", said)
        said = self.succeed(*compile_it, "--train-batch-norm=bn", "--batch-norm-momentum", 0.25).stderr
        self.assertIn("batch normalisation 'n' trains: its running statistics 'bn.running_mean' and 'bn.running_var' follow", said)
        self.assertIn("with momentum 0.25", said)
        self.assertNotIn("use fixed statistics", said)
        for flags, parts in ((["--train-batch-norm=bm"], ["--train-batch-norm=bm: matches none of the model's 1", "similar names: 'bn'"]),
                             (["--batch-norm-momentum", 0.5], ["--batch-norm-momentum requires --train-batch-norm"]),
                             (["--train-dropout"], ["--train-dropout: the file has no dropout"]),
                             (["--dropout", "fc=1"], ["--dropout fc=1", "above 0 and below 1"]),
                             (["--dropout", "gc=0.5"], ["--dropout gc=0.5: matches no module", "'fc'"])):
            with self.subTest(flags=flags):
                self.refuse(1, parts, *compile_it, *flags)
        for flags, found in ((["--train-batch-norm", "--batch-norm-momentum", 2], "expected a number above 0 to 1, found '2'"),
                             (["--dropout", "fc=much"], "expected PATTERN=RATIO with a number above 0 to 1, found 'fc=much'"),
                             (["--dropout", "fc"], "found 'fc'")):
            self.refuse(2, [flags[-2], found], *compile_it, *flags)


class Dropout(Runs):
    def perceptron(self, dropout=None):
        """Two products; a Dropout node between them that is on, off, or not there."""
        rng = random.Random(2)
        tensors = [onnx.tensor(name, shape, [rng.gauss(0, 0.5) for _ in range(shape[0] * shape[-1])])
                   for name, shape in (("l0.weight", [6, 16]), ("l1.weight", [16, 5]))]
        nodes = [onnx.node("MatMul", ["x", "l0.weight"], ["h"], "/l0/MatMul"), onnx.node("Relu", ["h"], ["r"], "/Relu")]
        last = "r"
        if dropout is not None:
            tensors += [onnx.tensor("ratio", [], [0.25]), onnx.tensor("mode", [], [dropout], onnx.BOOL)]
            nodes.append(onnx.node("Dropout", ["r", "ratio", "mode"], ["d"], "/drop/Dropout"))
            last = "d"
        nodes.append(onnx.node("MatMul", [last, "l1.weight"], ["logits"], "/l1/MatMul"))
        return onnx.write(self.scratch / f"perceptron-{dropout}.onnx", nodes, tensors, [onnx.value("x", onnx.FLOAT, ["batch", 6])],
                          [onnx.value("logits", onnx.FLOAT, ["batch", 5])])

    def setUp(self):
        super().setUp()
        self.data = self.scratch / "data.safetensors"
        rng = random.Random(1)
        programs.write_safetensors(self.data, {"x/x": floats(rng, SAMPLES, 6), "labels/y": integers(rng, 5, SAMPLES)})

    def test_masks_do_not_depend_on_the_cut(self):
        model = self.perceptron()
        plain = self.losses("plain", model, CLASSES, self.data, "--cluster", "local:1", "--micro-batches", 1)
        dropped = self.same_however_it_is_cut(model, CLASSES, self.data, "--dropout", "l0=0.25")
        self.assertNotEqual(dropped[0], plain[0])
        again = self.losses("again", model, CLASSES, self.data, "--cluster", "local:1", "--micro-batches", 1, "--dropout", "l0=0.25")
        self.assertEqual(again, dropped, "the same file, flags and seed")
        seed = self.losses("seed", model, CLASSES, self.data, "--cluster", "local:1", "--micro-batches", 1, "--dropout", "l0=0.25", seed=7)
        self.assertNotEqual(seed[0], dropped[0])

    def test_the_same_flags_give_the_same_bundle(self):
        model = self.perceptron()
        plans = [(self.bundle(name, model, CLASSES, "--dropout", "l0=0.25") / "plan.rir").read_bytes() for name in ("first", "second")]
        self.assertEqual(*plans)

    def test_evaluation_drops_nothing(self):
        model = self.perceptron()
        outputs = []
        for name, flags in (("plain", []), ("dropped", ["--dropout", "*l?=0.5"])):
            path = self.bundle(name, model, CLASSES, *flags)
            self.succeed("rannc-run", path, "-o", self.scratch / name, "--data", self.data, "--evaluate")
            outputs.append((self.scratch / name / "outputs.safetensors").read_bytes())
        self.assertEqual(*outputs)

    def test_a_dropout_keeps_the_mean(self):
        size, share = 4096, 0.25
        model = onnx.write(self.scratch / "mean.onnx", [onnx.node("Mul", ["x", "w"], ["y"], "scale"), onnx.node("ReduceMean", ["y"], ["loss"], "mean")],
                           [onnx.tensor("w", [size], [1.0] * size)], [onnx.value("x", onnx.FLOAT, ["batch", size])],
                           [onnx.value("loss", onnx.FLOAT, [1, 1])])
        data = self.scratch / "ones.safetensors"
        programs.write_safetensors(data, {"x/x": ("F64", [SAMPLES, size], array.array("d", [1.0] * (SAMPLES * size)).tobytes())})
        loss, = self.losses("mean", model, "in_graph(output=loss)", data, "--cluster", "local:1", "--dropout", f"scale={share}", steps=1)
        deviation = (share / (1 - share) / (SAMPLES * size)) ** 0.5
        self.assertNotEqual(loss, 1)
        self.assertLess(abs(loss - 1), 5 * deviation)

    def test_dropouts_of_the_file_come_back(self):
        on, off = self.perceptron(dropout=True), self.perceptron(dropout=False)
        cut = ["--cluster", "local:1", "--micro-batches", 2]
        plain = self.losses("plain", self.perceptron(), CLASSES, self.data, *cut)
        self.assertEqual(self.losses("off", off, CLASSES, self.data, *cut), plain)
        self.assertNotEqual(self.losses("on", on, CLASSES, self.data, *cut), plain)
        back = self.losses("back", off, CLASSES, self.data, *cut, "--train-dropout")
        self.assertNotEqual(back, plain)
        self.assertEqual(self.losses("asked", off, CLASSES, self.data, *cut, "--dropout", "drop=0.25"), back)
        self.assertNotEqual(self.losses("more", on, CLASSES, self.data, *cut, "--dropout", "drop=0.5"), back)
        said = self.succeed("rannc-compile", off, "--loss", CLASSES, "--emit=plan", "--costs", "analytic", "--mini-batch", SAMPLES).stderr
        self.assertIn("1 dropouts are off, as in a model exported for inference", said)


class Published(Runs):
    def setUp(self):
        super().setUp()
        self.models = programs.shared_models()
        if self.models is None:
            self.skipTest("no published models here")

    def test_an_inference_export_trains_as_the_module_in_training_mode(self):
        """Files of one ResNet with the same weights: references are those of the module in training mode."""
        training = self.models / "resnet_train_legacy"
        for name in ("resnet_unfolded_dynamo", "resnet_unfolded_legacy_script"):
            folder = self.scratch / name
            folder.mkdir()
            shutil.copy(self.models / name / "model.onnx", folder)
            for part in ("batch.safetensors", "reference.safetensors", "card.json"):
                shutil.copy(training / part, folder)
            with self.subTest(folder=name):
                done = self.succeed("rannc-check", folder, "--stages", 2, "--micro-batches", 1, "--summary=json", "--train-batch-norm")
                run = json.loads(done.stdout)
                self.assertTrue(run["ok"], run)
                self.assertEqual(run["compared_gradients"], 71)
                done = self.run_program("rannc-check", folder, "--stages", 2, "--micro-batches", 1)
                self.assertEqual(done.returncode, 1, "fixed statistics give other numbers")

    def statistics(self, path, prefix):
        """{name: numbers} of a file, in float64."""
        return {name.removeprefix(prefix): array.array("d", data) for name, (_, _, data) in programs.read_safetensors(path).items()
                if name.startswith(prefix) and "running" in name}

    def test_running_statistics_follow_as_those_of_the_module_in_training_mode(self):
        """The module that this file was exported from made the reference's, by a step in training mode."""
        momentum, relative = 0.1, 1e-7  # the module's epsilon is not rounded to float32
        training = self.models / "resnet_train_legacy"
        data = self.scratch / "data.safetensors"
        batch = programs.read_safetensors(training / "batch.safetensors")
        kind, shape, image = batch["x/image"]
        self.assertEqual(kind, "F32")
        batch["x/image"] = ("F64", shape, array.array("d", array.array("f", image)).tobytes())
        programs.write_safetensors(data, batch)
        once = ["--cluster", "local:1", "--micro-batches", 1]
        flags = [*once, "--train-batch-norm", "--batch-norm-momentum", momentum]
        self.losses("own", self.models / "resnet_unfolded_dynamo" / "model.onnx", CLASSES, data, *flags, steps=1)
        after, = (self.statistics(path, "buffer/") for path in (self.scratch / "own" / "checkpoints" / "step-1").glob("*.safetensors"))
        expected = self.statistics(training / "reference.safetensors", "buffer.f64/")
        self.assertEqual(len(after), 46)
        self.assertEqual(set(after), set(expected))
        for name, numbers in after.items():
            for own, other in zip(numbers, expected[name]):
                self.assertLessEqual(abs(own - other), relative * max(map(abs, expected[name])), name)

    def test_bert_with_dropout_trains_alike_however_it_is_cut(self):
        for name in ("bert_dynamo_dyn", "bert_legacy_dyn"):
            folder = self.models / name
            with self.subTest(folder=name):
                dropped = self.same_however_it_is_cut(folder / "model.onnx", CLASSES, folder / "batch.safetensors",
                                                      "--dropout", "*attention*output*dense*=0.1", prefix=name)
                plain = self.losses(f"{name}plain", folder / "model.onnx", CLASSES, folder / "batch.safetensors", "--cluster", "local:1")
                self.assertGreater(abs(dropped[0] - plain[0]), 1e-6)

    def test_dropout_of_attention_comes_back(self):
        for name in ("bert_dropout_dynamo", "bert_dropout_legacy"):
            model = self.models / name / "model.onnx"
            with self.subTest(folder=name):
                flags = ["rannc-compile", model, "--loss", CLASSES, "--emit=plan", "--costs", "analytic", "--mini-batch", SAMPLES]
                self.assertIn("warning: 4 dropouts of the exported program are off or not in the file", self.succeed(*flags).stderr)
                done = self.succeed(*flags, "--train-dropout")
                self.assertNotIn("warning: 4 dropouts", done.stderr)
                self.assertIn("drops a share of 0.1", done.stderr)


if __name__ == "__main__":
    programs.main()
