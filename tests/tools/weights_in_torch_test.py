"""PyTorch loads what was trained, strictly, and computes the same; what PyTorch saves comes in; skipped without PyTorch."""
import subprocess
import sys

import programs

try:
    import onnxscript  # the newer exporter needs it
    import safetensors.torch
    import torch

    import baked_families
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

# Float32 on both sides, summed in other orders.
ALIKE = 1e-4
SAMPLES = baked_families.SAMPLES
# Exporters fold BatchNormalization of a model in evaluation mode into weights: its tensors are in no file.
FOLDED = "convolutions"


class WeightsInTorch(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)

    def folder(self, family, exporter):
        path = self.scratch / f"{family}-{exporter}"
        made = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder",
                               f"{baked_families.__file__}:{family}", path, "--exporter", exporter], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def bundle(self, path, model, *more):
        self.succeed("rannc-compile", model, "-o", path, "--cluster", "local:2", "--stages", 2, "--mini-batch", SAMPLES, "--micro-batches", 2,
                     "--costs", "analytic", "--loss", "cross_entropy(output=logits,labels=y,axis=-1)", *more)
        return path

    def evaluated(self, bundle, data, *more, name="evaluated"):
        folder = self.scratch / name
        self.succeed("rannc-run", bundle, "-o", folder, "--data", data, "--evaluate", *more)
        return safetensors.torch.load_file(folder / "outputs.safetensors")["logits"]

    def alike(self, module, case, logits):
        with torch.no_grad():
            expected = module.eval()(*case["inputs"].values())
        self.assertLess((logits - expected).norm().item(), ALIKE * expected.norm().item())

    def trained_here_loads_there(self, family, exporter):
        folder = self.folder(family, exporter)
        data, bundle, weights = folder / "batch.safetensors", self.bundle(folder / "model.rannc", folder / "model.onnx"), folder / "trained"
        run = folder / "run"
        self.succeed("rannc-run", bundle, "-o", run, "--data", data, "--steps", 3, "--optimizer", "adam", "--export-weights", weights)
        case = getattr(baked_families, family)()
        case["module"].load_state_dict(safetensors.torch.load_file(weights), strict=True)
        trained = self.evaluated(bundle, data, "--resume", name=run)
        self.alike(case["module"], case, trained)
        copy = folder / "copy.onnx"
        self.succeed("rannc-compile", folder / "model.onnx", "--weights", weights, "--emit", "onnx", "-o", copy)
        self.assertTrue(self.evaluated(self.bundle(folder / "copy.rannc", copy), data, name=folder / "copied").equal(trained))

    def saved_there_comes_in(self, family, exporter):
        """A new instance has other numbers than the one that was exported."""
        folder = self.scratch / f"{family}-{exporter}"
        case = getattr(baked_families, family)()
        weights = folder / "pretrained.safetensors"
        safetensors.torch.save_file({name: tensor.contiguous().clone() for name, tensor in case["module"].state_dict().items()}, weights)
        bundle = self.bundle(folder / "pretrained.rannc", folder / "model.onnx", "--weights", weights)
        data = folder / "batch.safetensors"
        self.alike(case["module"], case, self.evaluated(bundle, data, name=folder / "compiled"))
        self.alike(case["module"], case, self.evaluated(folder / "model.rannc", data, "--weights", weights, name=folder / "loaded"))

    def test_families(self):
        for family in (each.__name__ for each in baked_families.FAMILIES if each.__name__ != FOLDED):
            for exporter in ("dynamo", "legacy"):
                with self.subTest(family=family, exporter=exporter, way="out"):
                    self.trained_here_loads_there(family, exporter)
                with self.subTest(family=family, exporter=exporter, way="in"):
                    self.saved_there_comes_in(family, exporter)


if __name__ == "__main__":
    programs.main()
