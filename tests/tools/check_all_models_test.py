"""Every published export gives the reference numbers on three stages: 3 micro-batches."""
import sys

import programs
from every_folder import EveryFolder, folders


class CheckAllModels(EveryFolder):
    def test_all(self):
        self.assertGreater(len(folders()), 60)
        for folder in folders():
            with self.subTest(folder=folder.name):
                self.judge(folder, 3, 3)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
