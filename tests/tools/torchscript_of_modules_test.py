"""Modules of six families, traced, scripted and exported, give their own numbers by the names of state_dict; skipped without PyTorch."""
import json
import subprocess
import sys

import programs

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


class Modules(programs.ProgramTest):
    in_process = programs.Resident.PROGRAMS

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

    def test_export_and_module_in_one_folder(self):
        folder = self.folder("decoder", "trace")
        self.assertIn("passed, 0 failed", self.succeed("rannc-check", folder).stdout)
        (folder / "model.onnx").unlink()
        self.assertIn("passed, 0 failed", self.succeed("rannc-check", folder).stdout)

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
        torch.jit.save(torch.jit.trace(Stepped(), torch.randn(8, 8)), model)
        safetensors.torch.save_file({"x/x": torch.randn(64, 8), "labels/y": torch.randint(0, 4, (64,))}, data)
        compiled = ["rannc-compile", model, "-o", bundle, "--input", "x=f32[batch,8]", "--output-name", "logits", "--loss",
                    "cross_entropy(output=logits,labels=y)", "--mini-batch", 8, "--cluster", "local:2", "--stages", 2, "--costs", "analytic"]
        self.refuse(1, ["stepped.pt", "rannc_test::soft_step", "--load-library"], *compiled)
        self.assertIn("calls    rannc_test.soft_step", self.succeed(*compiled, "--load-library", library).stderr)
        log = self.scratch / "stepped.log"
        self.succeed("rannc-run", bundle, "-o", self.scratch / "stepped.run", "--data", data, "--steps", 60, "--learning-rate", 0.1, "--loss-log", log)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        self.assertLess(losses[-1], 0.8 * losses[0])


if __name__ == "__main__":
    programs.main()
