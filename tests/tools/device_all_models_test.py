"""Every published export gives the reference numbers on an asynchronous device, by both engines and in several cuts."""
import sys

import programs
from every_folder import EveryFolder, folders


class DeviceAllModels(EveryFolder):
    in_process = ()  # a process has one device

    def test_all(self):
        device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
        self.assertGreater(len(folders()), 60)
        for folder in folders():
            for stages, flags in ((1, []), (2, ["--engine", "autograd"]), (4, ["--recompute", "always"])):
                with self.subTest(folder=folder.name, stages=stages, flags=flags):
                    self.judge(folder, stages, 4, "--device", device, *flags)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
