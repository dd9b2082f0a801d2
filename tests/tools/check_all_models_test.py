"""Every published export gives the reference numbers on two stages: 3 micro-batches, or the whole batch where it is a number."""
import json
import sys

import programs

# Structure only: there is no reference.
WITHOUT_NUMBERS = ["bert_dropout_dynamo", "bert_dropout_legacy", "gpt2_half_legacy", "resnet_asked_training_dynamo", "vgg_dropout_legacy"]
# Their reference normalises over the whole mini-batch, several micro-batches normalise each over its own samples.
BATCH_NORMALIZATION = ["mobilenet_v3_train_legacy", "resnet_train_legacy", "unet_train_legacy"]
# The exporter merged parameters of equal initial values. They are apart again, while the float64 reference evaluates the
# file, where they are one; the original module's float32 and float64 numbers know each.
MERGED = "bert_fresh_legacy"


class CheckAllModels(programs.ProgramTest):
    in_process = programs.Resident.PROGRAMS

    def check(self, folder, *flags):
        done = self.run_program("rannc-check", folder, "--stages", 2, "--summary=json", *flags)
        self.assertTrue(done.stdout, done.stderr)
        return done, json.loads(done.stdout)

    def passes(self, folder, micro_batches, *flags):
        done, run = self.check(folder, *flags)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(run["ok"], run["failures"])
        self.assertEqual(run["micro_batches"], micro_batches)
        self.assertGreater(run["compared_gradients"], 0)

    def fails(self, folder, part, *flags):
        done, run = self.check(folder, *flags)
        self.assertEqual(done.returncode, 1, "no longer so")
        self.assertTrue(any(part in failure for failure in run["failures"]), run["failures"])

    def test_all(self):
        folders = sorted(path for path in programs.shared_models().iterdir() if (path / "card.json").exists())
        self.assertGreater(len(folders), 60)
        for folder in folders:
            with self.subTest(folder=folder.name):
                self.judge(folder)

    def judge(self, folder):
        if folder.name in WITHOUT_NUMBERS:
            self.assertFalse((folder / "reference.safetensors").exists())
        elif folder.name == MERGED:
            self.fails(folder, "gradient of bert.encoder.layer.0.output.dense.bias: the reference has none", "--micro-batches", 3)
            self.passes(folder, 3, "--micro-batches", 3, "--dtype", "float32")
        elif folder.name in BATCH_NORMALIZATION:
            self.fails(folder, "loss: off by", "--micro-batches", 3)
            self.passes(folder, 1, "--micro-batches", 1)
        elif json.loads((folder / "card.json").read_text())["batch"] == "baked":
            self.passes(folder, 1)
        else:
            self.passes(folder, 3, "--micro-batches", 3)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
