"""Compiled stages give the reference numbers of the small folders."""
import programs
from products import ProductTest


class Native(ProductTest):
    def test_one_stage(self):
        folders = [programs.DATA / name for name in programs.SMALL]
        self.judge(folders, ["local"], product={"stages": [1], "micro_batches": [1, 3], "schedule": ["1f1b"], "recompute": ["never"]},
                   engine="native")

    def test_three_stages(self):
        folders = [programs.DATA / name for name in ("small_gpt", "small_conv")]
        self.judge(folders, ["local"], product={"stages": [3], "micro_batches": [1, 3], "schedule": ["1f1b"], "recompute": ["never"]},
                   engine="native")


class Source(programs.ProgramTest):
    def test_a_layer_is_found_in_few_lines(self):
        folder = programs.DATA / "small_gpt"
        done = self.run_program("rannc-compile", folder / "model.onnx", "--loss", "cross_entropy(output=logits,labels=targets)",
                                "--stages", 1, "--cluster", "local:1", "--costs", "analytic", "--emit", "source")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertLessEqual(len(lines), 1500)
        self.assertTrue(any("blocks.0" in line and line.strip().startswith("*run.task") for line in lines))


if __name__ == "__main__":
    programs.main()
