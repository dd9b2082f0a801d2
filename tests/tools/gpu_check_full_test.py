"""tools/gpu-check with every published model and, on the test device, its parts beside PyTorch; skipped without either."""
import unittest

import gpu_check_test
import programs

PARTS = [f"time-{model}{ending}" for model in ("gpt", "bert", "resnet", "vit") for ending in ("", "-bf16")]


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


class GpuCheckFull(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = gpu_check_test.prepared_folder(cls, programs.shared_models() or programs.DATA)

    def judged(self, part, *flags):
        """Names of the rows that were judged."""
        status, report, text = gpu_check_test.run_part(self.folder, part, "--limit", 1500, *flags)
        self.assertEqual((status, report["passed"]), (0, True), text)
        return [row["name"] for row in report["rows"] if row["passed"]], {row["name"]: row for row in report["rows"]}

    @unittest.skipIf(programs.shared_models() is None, "no folder of published models")
    def test_every_model_fits(self):
        size = sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        self.assertLessEqual(size, gpu_check_test.MOST_BYTES)
        judged, _ = self.judged("equality")
        expected = [path for path in programs.shared_models().iterdir() if (path / "reference.safetensors").is_file()]
        self.assertGreaterEqual(len(judged), 4 * len(expected))

    @unittest.skipIf(missing_package(), missing_package())
    def test_small_models_beside_pytorch(self):
        judged, _ = self.judged("time-small")
        self.assertEqual(judged, [f"{model} in float32: losses" for model in ("gpt2-tiny", "bert-tiny", "vit-tiny", "resnet-tiny", "lstm-tiny")])

    @unittest.skipIf(missing_package(), missing_package())
    def test_usual_models_beside_pytorch(self):
        for part in PARTS:
            with self.subTest(part=part):
                judged, rows = self.judged(part, "--no-torch-compile")
                self.assertEqual(len(judged), 1)
                self.assertTrue(judged[0].endswith(": losses"))
                self.assertEqual(len(rows), 7)

    @unittest.skipIf(missing_package(), missing_package())
    def test_torch_compile(self):
        _, rows = self.judged("time-gpt")
        row = rows["gpt2-tiny in float32: torch.compile's step / ours"]
        self.assertTrue(row.get("value") or row["why"])

    @unittest.skipIf(missing_package(), missing_package())
    def test_other_losses(self):
        self.judged("time-vit", "--no-torch-compile")  # unpacks
        script = self.folder / "payload" / "bench" / "raw_eager.py"
        right = script.read_text()
        self.addCleanup(script.write_text, right)
        wrong = right.replace("raw_models.seeded(model.rival)", "raw_models.seeded(model.rival, seed=9)")
        self.assertNotEqual(wrong, right)
        script.write_text(wrong)
        status, report, text = gpu_check_test.run_part(self.folder, "time-vit", "--no-torch-compile")
        self.assertEqual((status, report["passed"]), (1, False), text)
        self.assertEqual([row["name"] for row in report["rows"] if row["passed"] is False], ["vit-tiny in float32: losses"])


if __name__ == "__main__":
    programs.main()
