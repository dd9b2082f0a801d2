"""A model is planned for little memory where a plan exists: by more blocks, and without a plan that does not fit again. [N1 N2]"""
import unittest

import programs

MODEL = "vit_dynamo_dyn"
LEAST, MOST = 2_000_000, 2_600_000  # bytes of one device


@unittest.skipUnless(programs.shared_models(), "no published models")
class TightMemoryTest(programs.ProgramTest):
    def planned(self, cluster, memory, *flags):
        plan = self.scratch / "plan.rir"
        return self.succeed("rannc-compile", programs.shared_models() / MODEL / "model.onnx", "--emit", "plan", "-o", plan, "--replace",
                            "--loss", "cross_entropy(output=logits,labels=y)", "--cluster", cluster, "--costs", "analytic",
                            "--memory", memory, *flags)

    def test_every_limit_above_the_least_has_a_plan(self):
        for memory in range(LEAST, MOST + 1, 100_000):
            for blocks in (32, 64):
                with self.subTest(memory=memory, blocks=blocks):
                    self.planned("local:1", memory, "--blocks", blocks)

    def test_more_blocks_are_reported(self):
        done = self.planned("local:4", 1_200_000, "--blocks", 2)
        self.assertIn("no plan with 2 blocks fits the memory: using 4 blocks", done.stdout + done.stderr)


if __name__ == "__main__":
    programs.main()
