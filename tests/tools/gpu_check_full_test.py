"""tools/gpu-check with every published model and, on the test device, its parts beside PyTorch; skipped without either."""
import json
import os
import shutil
import subprocess
import sys
import unittest

import gpu_check_test
import programs
from gpu_check import models

DROPOUT = "gpt-dropout"
ONE_OF_EACH_KIND = ["gpt-bf16", "gpt-bf16 mends", "bert-bf16 from ONNX", "bert-tf32", "resnet-bf16", "vit-tf32", "gpt-large", "gpt-autocast", DROPOUT]


def missing_package():
    try:
        import onnxscript  # the newer exporter needs it
        import safetensors.torch
        import torch
        import torchvision
        import transformers
    except ImportError as missing:
        return str(missing)
    return None


@unittest.skipIf(programs.shared_models() is None, "no folder of published models")
class EveryModel(gpu_check_test.PartTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = gpu_check_test.prepared_folder(cls, programs.shared_models(), "--no-bundles")

    def test_fits_and_passes(self):
        size = sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        self.assertLessEqual(size, gpu_check_test.MOST_BYTES)
        rows = self.passes("equality", "--limit", 1500)
        expected = [path for path in programs.shared_models().iterdir() if (path / "reference.safetensors").is_file()]
        self.assertGreaterEqual(sum(row["passed"] is True for row in rows.values()), 4 * len(expected))


@unittest.skipIf(missing_package(), missing_package())
class BesidePyTorch(gpu_check_test.PartTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = gpu_check_test.prepared_folder(cls, programs.DATA, "--tiny", "--compression", "0")

    def judged(self, part, *flags):
        rows = self.passes(part, "--no-torch-compile", "--limit", 1500, *flags)
        return [name for name, row in rows.items() if row["passed"]], rows

    def test_small_models(self):
        judged, _ = self.judged("small")
        self.assertEqual(sorted(judged), sorted(f"{model}: {row}" for model in models.SMALL for row in ("losses", "recorded")))

    def test_usual_models(self):
        judged, rows = self.judged("speed", "--only", ",".join(ONE_OF_EACH_KIND))
        groups = [group for group in models.GROUPS if group.name in ONE_OF_EACH_KIND]
        self.assertEqual(sorted(rows), sorted(name for group in groups for name, _ in group.rows()))
        self.assertEqual(sorted(judged), sorted(f"{group.name}: {row}" for group in groups if group.judged
                                                for row in ("losses", "recorded") if (row, group.rivals) != ("losses", ())))

    def test_torch_compile(self):
        rows = self.passes("speed", "--only", "vit-tf32", "--limit", 1500)
        row = rows["vit-tf32: in turns with default"]
        self.assertTrue(row.get("value") or row["why"])

    def test_kernels_are_timed_alone(self):
        script = """
import fcntl, sys
import raw_eager
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._inductor.select_algorithm import AlgorithmSelectorCache
def is_locked():
    with open(sys.argv[1], "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
CachingAutotuner.benchmark_all_configs = lambda self, key: (key, is_locked())
AlgorithmSelectorCache.benchmark_choices = classmethod(lambda cls, key: (is_locked(), CachingAutotuner.benchmark_all_configs(None, key)))
raw_eager.time_kernels_alone(sys.argv[1])
print(is_locked(), AlgorithmSelectorCache.benchmark_choices("inner"), CachingAutotuner.benchmark_all_configs(None, "outer"), is_locked())
"""
        done = subprocess.run([sys.executable, "-B", "-c", script, self.folder / "timing.lock"], capture_output=True, text=True,
                              cwd=programs.SOURCE / "tests/bench", env={**os.environ, "PYTHONPATH": "."})
        self.assertEqual(done.stdout, "False (True, ('inner', True)) ('outer', True) False\n", done.stderr)

    def test_other_weights(self):
        self.judged("speed", "--only", "vit-bf16")  # unpacks
        script = self.folder / "payload" / "bench" / "raw_eager.py"
        right = script.read_text()
        self.addCleanup(script.write_text, right)
        wrong = right.replace("state[name].copy_(tensor)", "state[name].copy_(1.5 * tensor)")
        self.assertNotEqual(wrong, right)
        script.write_text(wrong)
        self.assertEqual(list(self.fails("speed", "--no-torch-compile", "--only", "vit-bf16")), ["vit-bf16: losses"])

    def test_missing_weights(self):
        self.judged("speed", "--only", "gpt-bf16")  # unpacks
        bundle = self.folder / "filled" / "gpt-bf16.rannc"
        self.addCleanup(shutil.rmtree, bundle)
        names = json.loads((bundle / "of_module.json").read_text())["names"]
        self.assertIn("model.transformer.wpe.weight", names)
        tensors = programs.read_safetensors(bundle / "stage0.safetensors")
        programs.write_safetensors(bundle / "stage0.safetensors", {name: tensor for name, tensor in tensors.items() if name != names[0]})
        rows = self.fails("speed", "--no-torch-compile", "--only", "gpt-bf16")
        self.assertIn("[B3]", rows["gpt-bf16: losses"]["why"])


if __name__ == "__main__":
    programs.main()
