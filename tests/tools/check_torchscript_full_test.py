"""Every TorchScript file beside a published export gives the numbers of its module, in both precisions."""
import sys

import programs
from torchscript_folders import TorchScriptFolder, folders, loss, signature


class EveryTorchScriptFile(TorchScriptFolder):
    def test_all(self):
        self.assertGreater(len(folders()), 10)
        for folder in folders():
            for dtype in ("float64", "float32"):
                with self.subTest(folder=folder.name, dtype=dtype):
                    self.judge(folder, "--dtype", dtype)

    def test_trains(self):
        """On its own mini-batch, over two devices, the loss falls."""
        for folder in folders():
            with self.subTest(folder=folder.name):
                bundle, log = self.scratch / f"{folder.name}.rannc", self.scratch / f"{folder.name}.log"
                self.succeed("rannc-compile", folder / "model.pt", "-o", bundle, *signature(folder), *loss(folder), "--costs", "analytic", "--cluster",
                             "local:2", "--stages", 2, "--mini-batch", 8, "--optimizer", "sgd")
                self.succeed("rannc-run", bundle, "-o", self.scratch / f"{folder.name}.run", "--data", folder / "batch.safetensors", "--steps", 12,
                             "--loss-log", log, "--learning-rate", 0.05)
                losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
                self.assertEqual(len(losses), 12)
                self.assertLess(losses[-1], losses[0])

    def test_by_processes(self):
        for folder in folders():
            with self.subTest(folder=folder.name):
                done, runs = self.check(folder, "--stages", 3, "--micro-batches", 1, "--transport", "gloo")
                self.assertEqual(done.returncode, 0, runs[0]["failures"])


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
