"""Weights go out and come in under the names of state_dict: trained ones out of runs, pretrained ones into models, runs and ONNX files."""
import random
import struct

import programs
import small_onnx as onnx

MLP = programs.DATA / "small_mlp"
LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
DIAGNOSTICS, USAGE = 1, 2


def scaled(tensors, factor):
    """Floats times a factor; all else as it is."""
    def of(tensor):
        dtype, shape, data = tensor
        if dtype != "F32":
            return tensor
        numbers = struct.unpack(f"<{len(data) // 4}f", data)
        return dtype, shape, struct.pack(f"<{len(numbers)}f", *(factor * number for number in numbers))

    return {name: of(tensor) for name, tensor in tensors.items()}


def widened(tensors):
    return {name: ("F64", shape, struct.pack(f"<{len(data) // 4}d", *struct.unpack(f"<{len(data) // 4}f", data)))
            for name, (_, shape, data) in tensors.items()}


class WeightsTest(programs.ProgramTest):
    def compile(self, name, *more, stages=2, model=MLP / "model.onnx", loss=LOSS):
        path = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", path, "--cluster", f"local:{stages}", "--stages", stages, "--mini-batch", 8,
                     "--micro-batches", 2, "--costs", "analytic", "--schedule", "1f1b", "--loss", loss, *more)
        return path

    def run_arguments(self, bundle, name, *more, data=MLP / "batch.safetensors"):
        return ["rannc-run", bundle, "-o", self.scratch / name, "--data", data, "--steps", 3, "--optimizer", "adam", *more]

    def exported(self, name, *arguments):
        path = self.scratch / f"{name}.safetensors"
        self.succeed(*arguments, "--export-weights", path)
        return path

    def own(self, bundle, name="own"):
        return self.exported(name, "rannc-run", bundle)

    def outputs(self, bundle, name, *more):
        self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--data", MLP / "batch.safetensors", "--evaluate", *more)
        return programs.read_safetensors(self.scratch / name / "outputs.safetensors")

    def only(self, *known):
        self.assertEqual(sorted(entry.name for entry in self.scratch.iterdir()), sorted(known))


class Out(WeightsTest):
    def test_of_a_bundle(self):
        path = self.own(self.compile("mlp"))
        tensors = programs.read_safetensors(path)
        self.assertEqual(sorted(tensors), [f"{layer}.{word}" for layer in (0, 2, 4, 6) for word in ("bias", "weight")])
        self.assertEqual(tensors["0.weight"][1][1], 12, "[outputs, inputs] as PyTorch has it")
        self.assertEqual(programs.read_metadata(path), {"format": "pt"})
        self.only("mlp.rannc", "own.safetensors")

    def test_of_training_whatever_the_transport(self):
        bundle = self.compile("mlp")
        found = {}
        for transport in ("local", "gloo"):
            path = self.exported(transport, *self.run_arguments(bundle, transport, "--transport", transport))
            found[transport] = path.read_bytes()
            self.assertNotEqual(programs.read_safetensors(path), programs.read_safetensors(self.own(bundle)))
            for way, more in {"alone": [], "evaluated": ["--data", MLP / "batch.safetensors", "--evaluate", "--transport", transport]}.items():
                again = self.exported(f"{transport}-{way}", "rannc-run", bundle, "-o", self.scratch / transport, "--resume", *more)
                self.assertEqual(again.read_bytes(), found[transport], way)
        self.assertEqual(found["local"], found["gloo"])

    def test_with_what_is_frozen(self):
        bundle = self.compile("frozen", "--freeze", "0.*")
        before, after = programs.read_safetensors(self.own(bundle)), programs.read_safetensors(
            self.exported("trained", *self.run_arguments(bundle, "run")))
        self.assertEqual(sorted(before), sorted(after))
        self.assertEqual({name for name in before if before[name] == after[name]}, {"0.weight", "0.bias"})

    def test_says_where_they_are_or_why_not(self):
        bundle = self.compile("mlp")
        done = self.succeed("rannc-run", bundle, "--export-weights", self.scratch / "w.safetensors")
        self.assertIn(f"8 tensors of {bundle} are in {self.scratch / 'w.safetensors'}", done.stdout)
        before = sorted(entry.name for entry in self.scratch.iterdir())
        nowhere = self.scratch / "no" / "w.safetensors"
        for transport in ("local", "gloo"):
            self.refuse(DIAGNOSTICS, [str(nowhere), "is not a folder"], *self.run_arguments(bundle, "run", "--transport", transport),
                        "--export-weights", nowhere)
        self.refuse(DIAGNOSTICS, ["is a folder"], "rannc-run", bundle, "--export-weights", bundle)
        self.refuse(DIAGNOSTICS, ["--resume"], "rannc-run", bundle, "-o", self.scratch / "absent", "--resume", "--export-weights",
                    self.scratch / "x")
        self.only(*before)


class In(WeightsTest):
    def trained(self):
        bundle = self.compile("mlp")
        path = self.exported("trained", *self.run_arguments(bundle, "run"))
        return bundle, path, self.outputs(bundle, "run", "--resume")

    def test_into_a_run(self):
        bundle, path, expected = self.trained()
        self.assertNotEqual(self.outputs(bundle, "fresh"), expected)
        other = self.compile("other", stages=1)
        for transport in ("local", "gloo"):
            self.assertEqual(self.outputs(other, f"other-{transport}", "--weights", path, "--transport", transport), expected)
        # Training goes on from there: the first loss is that of the weights.
        log = self.scratch / "log"
        self.succeed(*self.run_arguments(bundle, "further", "--weights", path, "--loss-log", log))
        evaluated = self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--resume", "--data", MLP / "batch.safetensors", "--evaluate")
        first = float.fromhex(log.read_text().split()[1])
        self.assertIn(f"loss {first:.5g}"[:10], evaluated.stdout)

    def test_into_a_compiled_model(self):
        _, path, expected = self.trained()
        bundle = self.compile("loaded", "--weights", path, stages=1)
        self.assertEqual(self.outputs(bundle, "loaded"), expected)
        self.assertEqual(self.own(bundle).read_bytes(), path.read_bytes())

    def test_of_a_resumed_run_are_the_checkpoints(self):
        bundle, path, expected = self.trained()
        other = self.scratch / "other.safetensors"
        programs.write_safetensors(other, scaled(programs.read_safetensors(path), 2))
        self.assertEqual(self.outputs(bundle, "run", "--resume", "--weights", other), expected)

    def test_in_another_type_on_demand(self):
        bundle = self.compile("mlp")
        single, double = self.own(bundle), self.scratch / "double.safetensors"
        programs.write_safetensors(double, scaled(widened(programs.read_safetensors(single)), 1))
        self.refuse(DIAGNOSTICS, ["double.safetensors", "0.weight is f64", "expected f32"], "rannc-compile", MLP / "model.onnx", "-o",
                    self.scratch / "x", "--weights", double)
        for file in (single, double):
            wide = self.compile(f"wide-{file.stem}", "--weights", file, "--dtype", "float64")
            self.assertEqual(programs.read_safetensors(self.own(wide, file.stem + "-wide")), programs.read_safetensors(double))

    def test_in_part_on_demand(self):
        bundle = self.compile("mlp")
        tensors = programs.read_safetensors(self.own(bundle))
        part = {"6.bias": scaled(tensors, 3)["6.bias"], "head.weight": tensors["0.bias"]}
        path = self.scratch / "part.safetensors"
        programs.write_safetensors(path, part)
        for arguments in (["rannc-compile", MLP / "model.onnx", "-o", self.scratch / "x", "--costs", "analytic"],
                          ["rannc-run", bundle, "-o", self.scratch / "y", "--data", MLP / "batch.safetensors", "--evaluate"]):
            refused = self.refuse(DIAGNOSTICS, ["part.safetensors", "7 missing, 1 unexpected", "missing: 0.weight, 0.bias",
                                                "unexpected: head.weight"], *arguments, "--weights", path)
            self.assertNotIn("6.bias", refused.stderr)
            done = self.succeed(*arguments, "--weights", path, "--partial-weights")
            self.assertIn("7 tensors of the model are missing and stay as they are: 0.weight", done.stderr)
            self.assertIn("1 tensors are unknown to the model and excluded: head.weight", done.stderr)
        found = programs.read_safetensors(self.own(self.scratch / "x", "found"))
        self.assertEqual(found, {**tensors, "6.bias": part["6.bias"]})


class BadFiles(WeightsTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.compile("mlp")
        self.good = self.own(self.bundle)
        self.bad = self.scratch / "bad.safetensors"

    def refused(self, *parts):
        before = sorted(entry.name for entry in self.scratch.iterdir())
        copy = ["--emit", "onnx", "-o", self.scratch / "copy.onnx"]
        for arguments in (["rannc-compile", MLP / "model.onnx", "-o", self.scratch / "x"], ["rannc-compile", MLP / "model.onnx", *copy],
                          self.run_arguments(self.bundle, "run"), self.run_arguments(self.bundle, "run", "--transport", "gloo")):
            self.refuse(DIAGNOSTICS, ["bad.safetensors", *parts], *arguments, "--weights", self.bad)
        self.only(*before)

    def test_that_are_none(self):
        self.refused("no such file")
        data = self.good.read_bytes()
        for bad in (b"", b"no tensors", data[:len(data) // 2], data[:-1], data + b"x", struct.pack("<Q", 1 << 40) + data[8:],
                    struct.pack("<Q", 99_000_000) + data[8:]):
            self.bad.write_bytes(bad)
            self.refused()

    def test_of_other_shapes(self):
        tensors = programs.read_safetensors(self.good)
        dtype, shape, data = tensors["2.weight"]
        for other in (shape[::-1], [shape[0] * shape[1]], [1, *shape]):
            if other == shape:
                continue
            programs.write_safetensors(self.bad, {**tensors, "2.weight": (dtype, other, data)})
            self.refused("2.weight is f32", f"expected f32[{shape[0]},{shape[1]}]")

    def test_that_were_mutated(self):
        data = self.good.read_bytes()
        for seed in range(16):
            generator = random.Random(seed)
            spoiled = bytearray(data)
            for _ in range(generator.choice([1, 4, 16])):
                spoiled[generator.randrange(len(spoiled) if seed % 2 else 400)] = generator.randrange(256)
            self.bad.write_bytes(spoiled)
            with self.subTest(seed=seed):
                done = self.run_program("rannc-compile", MLP / "model.onnx", "--emit", "graph", "--weights", self.bad)
                self.assertIn(done.returncode, (0, DIAGNOSTICS), done.stderr)

    def test_may_hold_any_number(self):
        tensors = programs.read_safetensors(self.good)
        dtype, shape, data = tensors["6.bias"]
        programs.write_safetensors(self.bad, {**tensors, "6.bias": (dtype, shape, struct.pack("<f", float("nan")) + data[4:])})
        loaded = self.compile("nan", "--weights", self.bad)
        self.assertEqual(programs.read_safetensors(self.own(loaded, "nan")), programs.read_safetensors(self.bad))

    def test_flags_that_contradict(self):
        self.refuse(USAGE, ["--partial-weights", "--weights"], "rannc-run", self.bundle, "--partial-weights", "--data", "x")
        self.refuse(USAGE, ["--partial-weights", "--weights"], "rannc-compile", MLP / "model.onnx", "--partial-weights")
        self.refuse(DIAGNOSTICS, ["--weights", "--data"], "rannc-run", self.bundle, "--weights", self.good, "--export-weights", self.bad)
        self.refuse(DIAGNOSTICS, ["--export-weights", "nothing is trained"], "rannc-run", self.bundle, "--weights", self.good, "--evaluate",
                    "--data", MLP / "batch.safetensors", "--export-weights", self.bad)
        self.refuse(DIAGNOSTICS, ["--text", "--data"], "rannc-run", self.bundle)
        for flags in (["-o", "x.onnx"], ["--weights", self.good]):
            self.refuse(USAGE, ["is missing: --emit onnx"], "rannc-compile", MLP / "model.onnx", "--emit", "onnx", *flags)
        self.refuse(USAGE, ["--emit", "not an ONNX file"], "rannc-compile", "x.rir", "--emit", "onnx", "--weights", self.good, "-o", "x.onnx")


class IntoOnnx(WeightsTest):
    def copy(self, model, weights, name="copy.onnx", *more):
        path = self.scratch / name
        done = self.succeed("rannc-compile", model, "--weights", weights, "--emit", "onnx", "-o", path, *more)
        self.assertIn(f"wrote {path}", done.stdout)
        return path, done.stderr

    def test_trained_numbers(self):
        bundle = self.compile("mlp")
        weights = self.exported("trained", *self.run_arguments(bundle, "run"))
        path, said = self.copy(MLP / "model.onnx", weights)
        self.assertIn("8 tensors of", said)
        again = self.compile("again", model=path)
        self.assertEqual(self.own(again).read_bytes(), weights.read_bytes())
        self.assertEqual(self.outputs(again, "again"), self.outputs(bundle, "run", "--resume"))
        self.assertEqual(path.stat().st_size, (MLP / "model.onnx").stat().st_size)
        self.refuse(DIAGNOSTICS, [str(path), "exists already"], "rannc-compile", MLP / "model.onnx", "--weights", weights, "--emit", "onnx",
                    "-o", path)
        same, _ = self.copy(MLP / "model.onnx", self.own(bundle, "fresh"), "copy.onnx", "--replace")
        self.assertEqual(same.read_bytes(), (MLP / "model.onnx").read_bytes())
        self.refuse(DIAGNOSTICS, ["is the model that is copied"], "rannc-compile", same, "--weights", weights, "--emit", "onnx", "-o", same,
                    "--replace")

    def test_types_stay(self):
        bundle = self.compile("mlp", "--dtype", "float64")
        weights = self.own(bundle)
        self.refuse(DIAGNOSTICS, ["0.weight is f64", "expected f32"], "rannc-compile", MLP / "model.onnx", "--weights", weights, "--emit",
                    "onnx", "-o", self.scratch / "x.onnx")
        same, _ = self.copy(MLP / "model.onnx", weights, "copy.onnx", "--dtype", "float32")
        self.assertEqual(same.read_bytes(), (MLP / "model.onnx").read_bytes())
        self.refuse(DIAGNOSTICS, ["f32", "a copy of the model keeps all types"], "rannc-compile", MLP / "model.onnx", "--weights", weights, "--emit", "onnx",
                    "-o", self.scratch / "x.onnx", "--dtype", "float64")

    def test_parameters_that_the_exporter_merged(self):
        """Two layers of a fresh model share their zeros in the file, where an Identity still has the name of the second."""
        model = self.scratch / "merged.onnx"
        ones = [1.0] * 4
        onnx.write(model,
                   [onnx.node("Identity", ["0.bias"], ["1.bias"], "lost"),
                    onnx.node("Gemm", ["x", "0.weight", "0.bias"], ["h"], "first", onnx.number_attribute("transB", 1)),
                    onnx.node("Tanh", ["h"], ["g"], "second"),
                    onnx.node("Gemm", ["g", "1.weight", "1.bias"], ["y"], "third", onnx.number_attribute("transB", 1))],
                   [onnx.tensor("0.weight", [2, 2], [1.0, 2.0, 3.0, 4.0]), onnx.tensor("0.bias", [2], [0.0, 0.0]),
                    onnx.tensor("1.weight", [2, 2], ones)],
                   [onnx.value("x", onnx.FLOAT, ["batch", 2])], [onnx.value("y", onnx.FLOAT, ["batch", 2])])
        data = self.scratch / "data.safetensors"
        numbers = struct.pack("<16f", *(i / 8 for i in range(16)))
        programs.write_safetensors(data, {"x/x": ("F32", [8, 2], numbers), "labels/t": ("F32", [8, 2], numbers[::-1])})
        bundle = self.compile("merged", model=model, loss="mse(output=y,labels=t)")
        weights = self.exported("trained", *self.run_arguments(bundle, "run", data=data))
        tensors = programs.read_safetensors(weights)
        self.assertEqual(sorted(tensors), ["0.bias", "0.weight", "1.bias", "1.weight"])
        self.assertNotEqual(tensors["0.bias"], tensors["1.bias"])
        path, said = self.copy(model, weights)
        self.assertIn("1 of them became separate initializers", said)
        again = self.compile("again", model=path, loss="mse(output=y,labels=t)")
        self.assertEqual(self.own(again).read_bytes(), weights.read_bytes())


if __name__ == "__main__":
    programs.main()
