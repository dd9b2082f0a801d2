"""Compiled stages give the reference numbers of the small folders."""
import re

import programs
from products import ProductTest

COMPILED = ["small_conv", "small_recurrent", "small_gpt", "small_mlp", "small_regression", "small_losses"]
LOSS = "cross_entropy(output=logits,labels=targets)"


class Native(ProductTest):
    def judge_compiled(self, names, stages):
        product = {"stages": [stages], "micro_batches": [1, 3], "schedule": ["1f1b"], "recompute": ["never"]}
        self.judge([programs.DATA / name for name in names], ["local"], product=product, engine="native")

    def test_one_stage(self):
        self.judge_compiled(programs.part(COMPILED, 2), 1)

    def test_three_stages(self):
        self.judge_compiled(["small_gpt"], 3)


class Source(programs.ProgramTest):
    def test_a_layer_is_found_in_few_lines(self):
        done = self.run_program("rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--loss", LOSS, "--stages", 1, "--cluster",
                                "local:1", "--costs", "analytic", "--emit", "source")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(len(done.stdout.splitlines()), 1500)
        weight = re.search(r"^// (w\[\d+\])  blocks\.0\.\S+", done.stdout, re.MULTILINE)
        self.assertIsNotNone(weight)
        self.assertGreater(done.stdout.count(weight[1]), 1, "the layer's weight is read")
        self.assertRegex(done.stdout, r"(?m)^  \*run\.task = \d+;  // #\d+ core\.linear, node_\S+")


class Forms(programs.ProgramTest):
    """Runs of one model as text and compiled, without loops, which round differently."""

    def setUp(self):
        super().setUp()
        for form in ("interpreted", "native"):
            self.succeed("rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--loss", LOSS, "--stages", 1, "--cluster", "local:1",
                         "--costs", "analytic", "--mini-batch", 8, "--form", form, "--no-fuse", "loops", "-o", self.scratch / form)

    def train(self, form, folder, steps, *more):
        log = self.scratch / f"{folder}-{steps}.log"
        self.succeed("rannc-run", self.scratch / form, "-o", self.scratch / folder, "--data",
                     programs.DATA / "small_gpt" / "batch.safetensors", "--steps", steps, "--loss-log", log, *more)
        return [line.split()[1] for line in log.read_text().splitlines()]

    def test_a_run_goes_on_in_the_other_form(self):
        expected = self.train("interpreted", "whole", 4)
        self.assertEqual(len(set(expected)), 4)
        found = self.train("native", "parts", 2)
        self.assertEqual(found, expected[:2])
        found = self.train("interpreted", "parts", 3, "--resume")
        self.assertEqual(found[-1], expected[2])
        self.assertEqual(self.train("native", "parts", 4, "--resume")[-1], expected[3])


if __name__ == "__main__":
    programs.main()
