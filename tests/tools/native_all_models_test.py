"""Every published export gives the reference numbers by compiled stages."""
import sys

import every_folder
import programs
from every_folder import EveryFolder, folders


class NativeAllModels(EveryFolder):
    def test_all(self):
        without_numbers = [every_folder.INVALID, every_folder.NOT_IN_TRAINING, *every_folder.STRUCTURE_ONLY]
        with_numbers = [folder for folder in folders() if folder.name not in without_numbers]
        self.assertGreater(len(with_numbers), 55)
        for folder in with_numbers:
            for stages in (1, 3):
                for micro_batches in (1, 3):
                    with self.subTest(folder=folder.name, stages=stages, micro_batches=micro_batches):
                        self.judge(folder, stages, micro_batches, "--engine", "native")


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
