"""Every published export gives the reference numbers on an asynchronous device, by both engines and in several cuts."""
import sys

import every_folder
import programs
from every_folder import EveryFolder, folders


class DeviceAllModels(EveryFolder):
    def test_all(self):
        device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
        without_numbers = [every_folder.INVALID, every_folder.NOT_IN_TRAINING, *every_folder.STRUCTURE_ONLY]
        with_numbers = [folder for folder in folders() if folder.name not in without_numbers]
        self.assertGreater(len(with_numbers), 55)
        for folder in with_numbers:
            for stages, flags in ((1, []), (4, ["--recompute", "always"])):
                with self.subTest(folder=folder.name, stages=stages, flags=flags):
                    self.judge(folder, stages, 4, "--device", device, *flags)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
