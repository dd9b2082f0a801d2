"""Every published export, whole and at 3 micro-batches over 3 stages, with each pass left out that may be."""
import sys

import programs
from every_folder import OPTIONAL_PASSES, EveryFolder, folders


class LeftOut(EveryFolder):
    def product(self, *flags):
        for folder in folders():
            for stages, micro_batches in ((1, 1), (3, 3)):
                with self.subTest(folder=folder.name, stages=stages, flags=flags):
                    self.judge(folder, stages, micro_batches, *flags)

    def test_with_all_passes(self):
        self.product()

    def test_without_each(self):
        for left_out in OPTIONAL_PASSES:
            self.product("--skip-pass", left_out)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
