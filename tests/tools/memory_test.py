"""What a plan predicts of memory is what the tensors of its worker take, within 2 %: counted, not timed."""
import pathlib
import re
import tempfile

import programs

LIMIT = 0.02
LOSSES = {"gpt": "cross_entropy(output=logits,labels=targets)"}


class MemoryTest(programs.ProgramTest):
    def model(self, *flags):
        path = self.scratch / "model.onnx"
        self.succeed("rannc-zoo", *flags, "-o", path)
        return path

    def peaks(self, model, loss, data, stages, *flags, optimizer="adam"):
        """[(measured, predicted)] by device, of two steps after the first; a process per device."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        bundle = folder / "model.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--cluster", f"local:{stages}", "--stages", stages, "--loss", loss,
                     "--costs", "analytic", "--optimizer", optimizer, *flags)
        done = self.succeed("rannc-run", bundle, "-o", folder / "run", "--steps", 3, "--transport", "gloo", "--optimizer",
                            optimizer, *data)
        found = re.findall(r"device (\d+) held (\d+) bytes at most, (\d+) were predicted", done.stdout)
        self.assertEqual(sorted(int(device) for device, _, _ in found), list(range(stages)), done.stdout)
        return [(int(measured), int(predicted)) for _, measured, predicted in sorted(found)]

    def expect(self, *arguments, **options):
        for device, (measured, predicted) in enumerate(self.peaks(*arguments, **options)):
            self.assertLess(abs(predicted / measured - 1), LIMIT,
                            f"device {device} held {measured} bytes, {predicted} were predicted: {arguments}")

    @property
    def text(self):
        return ["--text", programs.SOURCE / "tests" / "requirements.md"]

    def expect_gpt(self, stages, micro_batches, schedule, recompute, *model, mini_batch=12, **options):
        self.expect(self.model("gpt", "--layers", 4, "--width", 64, "--heads", 4, "--context", 64, *model), LOSSES["gpt"],
                    self.text, stages, "--mini-batch", mini_batch, "--micro-batches", micro_batches, "--schedule", schedule,
                    "--recompute", recompute, **options)

    def test_one_stage(self):
        self.expect_gpt(1, 1, "gpipe", "never")
        self.expect_gpt(1, 4, "1f1b", "never")

    def test_recompute_and_its_last_micro_batch(self):
        self.expect_gpt(1, 4, "gpipe", "always")

    def test_tied_parameters_are_held_once(self):
        self.expect_gpt(1, 4, "1f1b", "never", "--tied", "--vocabulary", 512)

    def test_optimizer_without_state(self):
        self.expect_gpt(1, 3, "1f1b", "never", optimizer="sgd")


if __name__ == "__main__":
    programs.main()
