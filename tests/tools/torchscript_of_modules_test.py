"""Modules of six families, traced, scripted and exported, give their own numbers by the names of state_dict; skipped without PyTorch."""
import json
import subprocess
import sys

import programs
from torchscript_folders import loss, signature

try:
    import onnxscript  # the newer exporter needs it
    import torch
    import safetensors.torch

    import baked_families
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)


TORCH_EXPORT = "--torch-export"
FAMILIES = [each.__name__ for each in baked_families.FAMILIES]
# The others unpack a tensor or read globals, which torch.jit.script refuses.
SCRIPTED = ["places_first", "convolutions", "recurrent"]


# Freezing folds a normalisation of batches into the convolution before it.
FROZEN = [family for family in FAMILIES if family != "convolutions"]
WITHOUT_GRADIENTS = """
import torch

class WithoutGradients(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.out = torch.nn.Parameter(torch.linspace(0.5, 1.5, 24).view(4, 6)), torch.nn.Linear(6, 3)

    def forward(self, x):
        with torch.no_grad():
            ended = x * self.w
            first, rest = (x * self.w).split([1, 3], 1)
            pieces = [rest + 1, first]
            written = x * self.w
            written += 1
            written = written.mul_(2)
            row = self.w[0]
            mask = torch.zeros(4, 6)
            mask[:, :2] = 1
            mask[1] += 2
            listed = [self.w, mask]
            kept = listed[0]
        y = ended + torch.cat([pieces[1], pieces[0]], 1) + written + row * 2
        return self.out(y + x * self.w * mask + x * kept).sum(1)


def without_gradients():
    torch.manual_seed(6)
    return {"module": WithoutGradients(), "inputs": {"x": torch.randn(7, 4, 6)}, "outputs": ["logits"], "labels": {"y": torch.randint(0, 3, (7,))},
            "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}]}
"""
STEPPED = """
import torch
torch.ops.load_library({library!r})

class Stepped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.scale, self.out = torch.nn.Linear(8, 16), torch.nn.Parameter(torch.linspace(0.5, 1.5, 16)), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.out(torch.ops.rannc_test.soft_step(self.into(x), self.scale))


def stepped():
    torch.manual_seed(4)
    return {{"module": Stepped(), "inputs": {{"x": torch.randn(7, 8)}}, "outputs": ["logits"], "labels": {{"y": torch.randint(0, 4, (7,))}},
            "loss": [{{"kind": "cross_entropy", "output": "logits", "labels": "y"}}]}}
"""


def made_folder(test, name, text, *flags):
    """Of a factory of that text."""
    factory, folder = test.scratch / f"{name}.py", test.scratch / name
    factory.write_text(text)
    made = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder", f"{factory}:{name}", folder,
                           "--exporter", "none", TORCH_EXPORT, *flags], capture_output=True, text=True)
    test.assertEqual(made.returncode, 0, made.stderr)
    return folder


class Modules(programs.ProgramTest):
    def folder(self, family, how, *flags):
        path = self.scratch / f"{family}-{how}{len(flags)}"
        made = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder",
                               f"{baked_families.__file__}:{family}", path, *([TORCH_EXPORT] if how == "export" else ["--torchscript", how]), *map(str, flags)],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def judge(self, folder, dtype, model="model.pt"):
        done = self.run_program("rannc-check", folder, "--model", model, "--stages", "1,2", "--micro-batches", "1,3", "--dtype", dtype,
                                "--summary=json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        parameters = json.loads((folder / "card.json").read_text())["gradients_by_state_dict"]
        runs = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([run["compared_gradients"] for run in runs], [len(parameters)] * 4)

    def test_families(self):
        for family, how in [(family, "trace") for family in FAMILIES] + [(family, "script") for family in SCRIPTED]:
            with self.subTest(family=family, how=how):
                folder = self.folder(family, how)
                for dtype in ("float64", "float32"):
                    self.judge(folder, dtype)

    def test_exported(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                folder = self.folder(family, "export")
                for dtype in ("float64", "float32"):
                    self.judge(folder, dtype, "model.pt2")

    def test_decomposed(self):
        """What torch.export's own decompositions leave of a module: other operators, the same numbers."""
        for family in FAMILIES:
            with self.subTest(family=family):
                folder = self.folder(family, "export")
                program = torch.export.load(folder / "model.pt2").run_decompositions()
                torch.export.save(program, folder / "decomposed.pt2")
                self.judge(folder, "float64", "decomposed.pt2")

    def test_traced_with_other_samples(self):
        """Two of the seven samples are in the file."""
        for family in FAMILIES:
            with self.subTest(family=family):
                self.judge(self.folder(family, "trace", "--batch-in-file", 2), "float64")
                self.judge(self.folder(family, "export", "--batch-in-file", 2), "float64", "model.pt2")

    def losses(self, name, model, folder, *flags):
        bundle, log = self.scratch / f"{name}.rannc", self.scratch / f"{name}.log"
        compiled = self.succeed("rannc-compile", model, "-o", bundle, *signature(folder), *loss(folder), "--costs", "analytic", "--cluster", "local:2",
                                "--stages", 2, "--mini-batch", 7, "--optimizer", "sgd", *flags)
        self.succeed("rannc-run", bundle, "-o", self.scratch / f"{name}.run", "--data", folder / "batch.safetensors", "--steps", 6, "--loss-log", log,
                     "--learning-rate", 0.1)
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()], compiled.stdout + compiled.stderr

    def test_frozen(self):
        """A frozen module has neither parameters nor their names: what is trained follows from where tensors are used, and is the same."""
        for family in FROZEN:
            with self.subTest(family=family):
                folder = self.folder(family, "trace")
                frozen = folder / "frozen.pt"
                torch.jit.save(torch.jit.freeze(torch.jit.load(folder / "model.pt").eval()), frozen)
                expected, _ = self.losses(f"{family}-whole", folder / "model.pt", folder)
                losses, said = self.losses(f"{family}-frozen", frozen, folder)
                self.assertIn("module without parameters, as frozen ones are", said)
                self.assertEqual(len(losses), 6)
                self.assertNotEqual(losses[0], losses[-1])
                for own, other in zip(losses, expected):
                    self.assertLess(abs(own - other), 2e-5 * abs(other), (losses, expected))

    def test_a_loss_of_its_own_file(self):
        """The loss as a program of torch.export beside the model."""

        class Loss(torch.nn.Module):
            def forward(self, logits, y):
                return torch.nn.functional.cross_entropy(logits, y)

        folder, batch = programs.DATA / "small_exported", torch.export.Dim("batch")
        own = self.scratch / "loss.pt2"
        torch.export.save(torch.export.export(Loss(), (torch.randn(8, 20), torch.randint(0, 20, (8,))), dynamic_shapes=({0: batch}, {0: batch})), own)

        def run(name, *flags):
            bundle, log = self.scratch / f"{name}.rannc", self.scratch / f"{name}.log"
            self.succeed("rannc-compile", folder / "model.pt2", "-o", bundle, *flags, "--costs", "analytic", "--cluster", "local:1", "--mini-batch", 8,
                         "--micro-batches", 2, "--optimizer", "sgd")
            self.succeed("rannc-run", bundle, "-o", self.scratch / f"{name}.run", "--data", folder / "batch.safetensors", "--steps", 3, "--loss-log",
                         log)
            return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

        parts = "mse(output=parts_1,labels=a,weight=0.5)"
        expected = run("by_name", "--loss", f"cross_entropy(output=logits,labels=y)+{parts}")
        for own_loss, other in zip(run("by_file", "--loss-graph", own, "--loss", parts), expected, strict=True):
            self.assertLess(abs(own_loss - other), 1e-6 * other)

    def test_export_and_module_in_one_folder(self):
        folder = self.folder("decoder", "trace")
        self.assertIn("passed, 0 failed", self.succeed("rannc-check", folder).stdout)
        (folder / "model.onnx").unlink()
        self.assertIn("passed, 0 failed", self.succeed("rannc-check", folder).stdout)

    def test_blocks_without_gradients(self):
        """What they make has none, what they hand on keeps its own."""
        folder = made_folder(self, "without_gradients", WITHOUT_GRADIENTS, "--torchscript", "script")
        for model in ("model.pt", "model.pt2"):
            with self.subTest(model=model):
                self.judge(folder, "float64", model)

    def test_a_write_without_gradients(self):
        text = WITHOUT_GRADIENTS.replace("        y = ended", "        y = x * self.w\n        with torch.no_grad():\n            y.mul_(2)\n        y = y + ended")
        folder = made_folder(self, "without_gradients", text, "--torchscript", "script")
        for model in ("model.pt", "model.pt2"):
            self.refuse(1, [f"{model}", "writes without gradients into a tensor that has a gradient"], "rannc-check", folder, "--model", model)


class Libraries(programs.ProgramTest):
    """Each program is a process of its own: none has what another loaded."""

    def test_an_operator_of_a_library(self):
        library = programs.bin_folder.parent / "tests" / "libraries" / "soft_step.so"
        torch.ops.load_library(library)

        class Stepped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.into, self.scale, self.out = torch.nn.Linear(8, 16), torch.nn.Parameter(torch.ones(16)), torch.nn.Linear(16, 4)

            def forward(self, x):
                return self.out(torch.ops.rannc_test.soft_step(self.into(x), self.scale))

        torch.manual_seed(3)
        model, data, bundle = self.scratch / "stepped.pt", self.scratch / "stepped.safetensors", self.scratch / "stepped.rannc"
        module = Stepped()
        torch.jit.save(torch.jit.trace(module, torch.randn(8, 8)), model)
        safetensors.torch.save_file({"x/x": torch.randn(64, 8), "labels/y": torch.randint(0, 4, (64,))}, data)
        compiled = ["rannc-compile", model, "-o", bundle, "--input", "x=f32[batch,8]", "--output-name", "logits", "--loss",
                    "cross_entropy(output=logits,labels=y)", "--mini-batch", 8, "--cluster", "local:2", "--stages", 2, "--costs", "analytic"]
        self.refuse(1, ["stepped.pt", "rannc_test::soft_step", "--load-library"], *compiled)
        self.assertIn("calls    rannc_test.soft_step", self.succeed(*compiled, "--load-library", library).stderr)
        log = self.scratch / "stepped.log"
        self.succeed("rannc-run", bundle, "-o", self.scratch / "stepped.run", "--data", data, "--steps", 60, "--learning-rate", 0.1, "--loss-log", log)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        self.assertLess(losses[-1], 0.8 * losses[0])
        exported = self.scratch / "stepped.pt2"
        torch.export.save(torch.export.export(module, (torch.randn(8, 8),), dynamic_shapes=({0: torch.export.Dim("batch")},)), exported)
        again = ["rannc-compile", exported, "-o", self.scratch / "exported.rannc", *compiled[4:]]
        self.refuse(1, ["stepped.pt2", "rannc_test::soft_step", "--load-library"], *again)
        self.succeed(*again, "--load-library", library)
        log = self.scratch / "exported.log"
        self.succeed("rannc-run", self.scratch / "exported.rannc", "-o", self.scratch / "exported.run", "--data", data, "--steps", 60, "--learning-rate",
                     0.1, "--loss-log", log)
        self.assertEqual([float.fromhex(line.split()[1]) for line in log.read_text().splitlines()], losses)

    def test_check_loads_libraries(self):
        library = str(programs.bin_folder.parent / "tests" / "libraries" / "soft_step.so")
        folder = made_folder(self, "stepped", STEPPED.format(library=library), "--torchscript", "trace")
        for model in ("model.pt", "model.pt2"):
            with self.subTest(model=model):
                check = ["rannc-check", folder, "--model", model, "--stages", "1,2", "--micro-batches", "1,3"]
                self.refuse(1, [model, "rannc_test::soft_step", "--load-library"], *check)
                self.assertIn("4 passed, 0 failed", self.succeed(*check, "--load-library", library).stdout)


if __name__ == "__main__":
    programs.main()
