"""The memory of every published export is what its plan predicts, by schedule and recompute mode: within 2 %."""
import unittest

import every_folder
import memory_runs
import programs

DEVICES, MICRO_BATCHES = 2, 4
SCHEDULES = {"1f1b": ["--stages", DEVICES], "gpipe": ["--stages", DEVICES], "zb-h1": ["--stages", DEVICES],
             "zb-v": ["--stages", 2 * DEVICES, "--stages-per-device", 2]}
RECOMPUTE = {"never": [], "always": [], "except-last": [], "selective": ["--recompute-budget", 15]}


@unittest.skipUnless(programs.shared_models(), "no published models")
class MemorySharedTest(memory_runs.MemoryRuns):
    def expect_all(self, folder):
        mini_batch = 4 if "ambiguous" in folder.name else 8
        for schedule, places in SCHEDULES.items():
            for recompute, budget in RECOMPUTE.items():
                with self.subTest(schedule=schedule, recompute=recompute):
                    self.expect_export(folder, DEVICES, *places, "--mini-batch", mini_batch, "--micro-batches", MICRO_BATCHES, "--schedule",
                                       schedule, "--recompute", recompute, *budget)


def add_tests():
    for folder in sorted(programs.shared_models().iterdir()) if programs.shared_models() else []:
        if (folder / "card.json").exists() and folder.name != every_folder.INVALID:
            setattr(MemorySharedTest, f"test_{folder.name}", lambda self, folder=folder: self.expect_all(folder))


add_tests()

if __name__ == "__main__":
    programs.main()
