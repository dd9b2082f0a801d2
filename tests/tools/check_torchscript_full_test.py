"""Every TorchScript file beside a published export gives the numbers of its module, in both precisions."""
import sys

import programs
from torchscript_folders import TorchScriptFolder, folders


class EveryTorchScriptFile(TorchScriptFolder):
    def test_all(self):
        self.assertGreater(len(folders()), 10)
        for folder in folders():
            for dtype in ("float64", "float32"):
                with self.subTest(folder=folder.name, dtype=dtype):
                    self.judge(folder, "--dtype", dtype)

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
