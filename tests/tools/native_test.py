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


if __name__ == "__main__":
    programs.main()
