"""Numbers stay what they are without the passes that may be left out; no other pass may be."""
import programs
from every_folder import OPTIONAL_PASSES, EveryFolder

# One of each sort: functions, sizes that are computed, a batch that is a number, recurrent layers, running statistics.
PUBLISHED = ["mlp_functions", "bert_legacy_dyn", "gpt2_legacy_b8", "lstm_legacy_dyn", "resnet_train_legacy"]


class LeftOut(EveryFolder):
    def test_small_folders(self):
        for name in programs.SMALL:
            for left_out in OPTIONAL_PASSES:
                with self.subTest(folder=name, left_out=left_out):
                    self.passes(programs.DATA / name, 2, 3, "--micro-batches", 3, "--skip-pass", left_out)

    def test_published_models(self):
        if programs.shared_models() is None:
            self.skipTest("no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        for name in PUBLISHED:
            with self.subTest(folder=name):
                self.judge(programs.shared_models() / name, 3, 3, "--skip-pass", ",".join(OPTIONAL_PASSES))

    def test_what_is_left_out_does_not_run(self):
        model = programs.DATA / "small_gpt" / "model.onnx"
        for left_out in OPTIONAL_PASSES:
            flags = ["--emit=atoms", "--costs=analytic", "--time-passes"]
            with_it = self.succeed("rannc-compile", model, *flags)
            without = self.succeed("rannc-compile", model, *flags, "--skip-pass", left_out)
            self.assertIn(left_out, with_it.stderr)
            self.assertNotIn(left_out, without.stderr)
            self.assertIn("form-atoms", without.stderr)

    def test_other_passes_are_refused_by_name(self):
        for name in ("rannc-compile", "rannc-check"):
            for left_out, said in (("infer-shapes", "infer-shapes cannot be skipped"), ("fold", "fold is not a pass")):
                with self.subTest(program=name, left_out=left_out):
                    self.refuse(2, [said, ", ".join(OPTIONAL_PASSES[:1])], name, programs.DATA / "small_mlp", "--skip-pass", left_out)


if __name__ == "__main__":
    programs.main()
