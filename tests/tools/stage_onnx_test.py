"""Stages as ONNX files: in the bundle, of a bundle, with other weights, and what is said where the plan cuts elsewhere."""
import json

import programs
import small_onnx as onnx

MLP = programs.DATA / "small_mlp"
LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
DIAGNOSTICS, USAGE = 1, 2


class StageOnnx(programs.ProgramTest):
    def compile(self, name, *more, model=MLP / "model.onnx"):
        bundle = self.scratch / f"{name}.rannc"
        done = self.succeed("rannc-compile", model, "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 8, "--costs",
                            "analytic", *more)
        return bundle, done

    def stages(self, folder):
        return {path.name: path.read_bytes() for path in sorted(folder.glob("stage*.onnx*"))}

    def test_in_a_bundle(self):
        plain, _ = self.compile("plain")
        self.assertEqual(self.stages(plain), {})
        bundle, _ = self.compile("bundle", "--stage-onnx")
        files = self.stages(bundle)
        self.assertEqual(list(files), ["stage0.onnx", "stage1.onnx"])
        listed = json.loads((bundle / "manifest.json").read_text())["files"]
        self.assertEqual({name: listed[name]["bytes"] for name in files}, {name: len(data) for name, data in files.items()})
        others = {path.name for path in bundle.iterdir()} - set(files)
        self.assertEqual(others, {path.name for path in plain.iterdir()}, "and nothing else")
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", MLP / "batch.safetensors", "--evaluate")
        (bundle / "stage1.onnx").write_bytes(files["stage0.onnx"])
        self.refuse(DIAGNOSTICS, ["stage1.onnx", "[B3]"], "rannc-run", bundle, "-o", self.scratch / "again", "--data",
                    MLP / "batch.safetensors", "--evaluate")

    def test_of_a_bundle_with_its_weights_and_others(self):
        trains = ["--loss", LOSS, "--optimizer", "adam"]
        bundle, _ = self.compile("bundle", "--stage-onnx", *trains)
        trained, folder = self.scratch / "trained.safetensors", self.scratch / "stages"
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", MLP / "batch.safetensors", "--steps", 2, "--export-weights",
                     trained)
        arguments = ["rannc-compile", MLP / "model.onnx", "--emit", "stage-onnx", "--bundle", bundle, "-o", folder]
        self.succeed(*arguments)
        self.assertEqual(self.stages(folder), self.stages(bundle))
        self.refuse(DIAGNOSTICS, [str(folder), "--replace"], *arguments)
        self.succeed(*arguments, "--replace", "--weights", trained)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["stage0.onnx", "stage1.onnx"])
        for name, data in self.stages(bundle).items():
            self.assertEqual(len(self.stages(folder)[name]), len(data), "only numbers differ")
            self.assertNotEqual(self.stages(folder)[name], data)
        loaded, _ = self.compile("loaded", "--stage-onnx", "--weights", trained, *trains)
        self.assertEqual(self.stages(loaded), self.stages(folder))
        (folder / "notes").write_text("mine")
        self.refuse(DIAGNOSTICS, ["notes", "not replaced"], *arguments, "--replace")

    def test_says_which_value_the_file_lacks(self):
        """Mean is several tasks, between which the plan cuts."""
        model = self.scratch / "mean.onnx"
        onnx.write(model, [onnx.node("Relu", ["x"], ["a"], "first"), onnx.node("Mean", ["a", "x", "a"], ["m"], "mean"),
                           onnx.node("Tanh", ["m"], ["z"], "last")], [],
                   [onnx.value("x", onnx.FLOAT, ["batch", 4])], [onnx.value("z", onnx.FLOAT, ["batch", 4])])
        bundle, done = self.compile("inside", "--stage-onnx", "--pin", "m.add.1=0", "--pin", "m=1", model=model)
        self.assertIn("remark: stage1.onnx receives m instead of m.add.1 (no tensor of the file), which the plan sends", done.stderr)
        self.assertEqual(len(self.stages(bundle)), 2)
        _, done = self.compile("behind", "--stage-onnx", "--pin", "m=0", "--pin", "z=1", model=model)
        self.assertNotIn("stage1.onnx", done.stderr)

    def test_refuses(self):
        model = MLP / "model.onnx"
        for code, parts, arguments in (
                (USAGE, ["--stage-onnx", "--emit plan"], [model, "--stage-onnx", "--emit", "plan"]),
                (USAGE, ["--bundle"], [model, "--emit", "stage-onnx", "-o", self.scratch / "x"]),
                (USAGE, ["--output"], [model, "--emit", "stage-onnx", "--bundle", self.scratch]),
                (USAGE, ["--bundle", "stage-onnx"], [model, "--bundle", self.scratch]),
                (DIAGNOSTICS, ["no such bundle"], [model, "--emit", "stage-onnx", "--bundle", self.scratch / "no", "-o", self.scratch / "x"])):
            with self.subTest(arguments=arguments):
                self.refuse(code, parts, "rannc-compile", *arguments)
        bundle, _ = self.compile("bundle")
        self.refuse(DIAGNOSTICS, ["small_gpt", "compiled from"], "rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--emit",
                    "stage-onnx", "--bundle", bundle, "-o", self.scratch / "x")
        text = self.scratch / "graph.rir"
        self.succeed("rannc-compile", model, "--emit", "graph", "-o", text)
        self.refuse(DIAGNOSTICS, ["graph.rir", "not an ONNX file"], "rannc-compile", text, "--stage-onnx", "-o", self.scratch / "x")
        self.assertFalse((self.scratch / "x").exists())


if __name__ == "__main__":
    programs.main()
