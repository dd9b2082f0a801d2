"""Every published export at any split in both precisions, and with each pass left out that may be."""
import itertools
import sys

import programs
from every_folder import OPTIONAL_PASSES, EveryFolder, folders


class EverySplit(EveryFolder):
    """In float64 against the file as it stands, in float32 by the names of the original module."""

    def test_every_split(self):
        for folder in folders():
            for stages, micro_batches in itertools.product((1, 3), (1, 3, 8)):
                for dtype in ("float64", "float32"):
                    with self.subTest(folder=folder.name, stages=stages, micro_batches=micro_batches, dtype=dtype):
                        self.judge(folder, stages, micro_batches, "--dtype", dtype)


class LeftOut(EveryFolder):
    def product(self, *flags):
        for folder in folders():
            for stages, micro_batches in ((1, 1), (3, 3)):
                with self.subTest(folder=folder.name, stages=stages, flags=flags):
                    self.judge(folder, stages, micro_batches, *flags)

    def test_without_each(self):
        for left_out in OPTIONAL_PASSES:
            self.product("--skip-pass", left_out)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
