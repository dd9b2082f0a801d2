"""Numbers stay what they are without any set of the passes that write a model in fewer operators."""
import itertools
import random

import programs
from every_folder import FUSIONS, EveryFolder

# None of the models here has what these are about, and small_gpt picks no part by a constant either.
ELSEWHERE, BY_PARTS = ["conv-bias", "cross-entropy", "permutes"], "selects"
SHORTENING = ["cse", "snap-constants", *(f"fuse-{name}" for name in FUSIONS if name not in ELSEWHERE)]
SETS = 2048
# One after the other, each with another set: small ones, and published ones of each sort of attention, norm and activation.
PUBLISHED = ["gpt2_dynamo_dyn", "bert_legacy_dyn", "llama_dynamo_dyn", "vit_legacy_dyn", "t5_legacy_dyn", "gpt2_legacy_b8",
             "llama_legacy_b8", "bert_loss_inside_legacy"]
STAGES, MICRO_BATCHES = (1, 2, 3), (1, 3)


def subsets(of):
    of = list(of)
    return itertools.chain.from_iterable(itertools.combinations(of, count) for count in range(len(of) + 1))


class EverySet(EveryFolder):
    def test_small_gpt(self):
        for left_out in subsets(name for name in SHORTENING if name != "fuse-" + BY_PARTS):
            with self.subTest(left_out=left_out):
                self.passes(programs.DATA / "small_gpt", 2, 3, "--micro-batches", 3, *self.flags(left_out))

    def test_a_folder_each(self):
        if programs.shared_models() is None:
            self.skipTest("no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        drawn = random.Random(1).sample(list(subsets(SHORTENING)), SETS)
        runs = itertools.product(PUBLISHED, STAGES, MICRO_BATCHES)
        for left_out, (name, stages, micro_batches) in zip(drawn, itertools.cycle(list(runs))):
            with self.subTest(folder=name, left_out=left_out, stages=stages, micro_batches=micro_batches):
                self.passes(programs.shared_models() / name, stages, micro_batches, "--micro-batches", micro_batches,
                            *self.flags(left_out))

    @staticmethod
    def flags(left_out):
        """rannc-check itself leaves snap-constants out unless it is asked for."""
        asked = [] if "snap-constants" in left_out else ["--snap-constants"]
        named = [name for name in left_out if name != "snap-constants"]
        return [*asked, *(["--skip-pass", ",".join(named)] if named else [])]


if __name__ == "__main__":
    programs.main()
