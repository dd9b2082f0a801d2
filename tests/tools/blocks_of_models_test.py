"""R5 on published models: uncoarsening lowers what crosses between the blocks, or leaves it."""
import re

import every_folder
import programs

BLOCKS = [8, 2, 4, 16, 32]


class BlocksOfModels(programs.ProgramTest):
    def crossing(self, model, partitioner, blocks):
        """Time of all values that a block reads from others, and the number of blocks."""
        done = self.succeed("rannc-compile", model, "--emit=blocks", "--costs", "analytic", "--cluster", "local:1", "--blocks", blocks,
                            "--block-partitioner", partitioner)
        read = re.findall(r"^block .* in_ns (\d+)", done.stdout, re.MULTILINE)
        return sum(map(int, read)), len(read)

    def test_uncoarsening_never_raises_what_crosses(self):
        if programs.shared_models() is None:
            self.skipTest("no shared data at hand")
        lower = 0
        folders = [folder for folder in every_folder.folders() if folder.name != every_folder.INVALID]
        for folder in folders[:: 1 if programs.WHOLE else 8]:
            for blocks in programs.part(BLOCKS, 1):
                with self.subTest(model=folder.name, blocks=blocks):
                    before = self.crossing(folder / "model.onnx", "rannc-no-uncoarsening", blocks)
                    after = self.crossing(folder / "model.onnx", "rannc", blocks)
                    self.assertEqual(after[1], before[1])
                    self.assertLessEqual(after[0], before[0])
                    lower += after[0] < before[0]
        self.assertGreaterEqual(lower, 20 if programs.WHOLE else 1)


if __name__ == "__main__":
    programs.main()
