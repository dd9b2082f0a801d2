"""Losses written in PyTorch that are linear forms of sums over samples train divided in all export forms, others are refused by name;
skipped without PyTorch.

RANNC_LOSSES_SEED=N repeats the random losses of an earlier test, which printed its seed; RANNC_LOSSES=N makes so many.
"""
import logging
import os
import random
import sys
import warnings

import programs

try:
    import onnxscript  # the newer exporter needs it
    import safetensors
    import torch

    import loss_examples
    import loss_folders
    from loss_folders import MODELS
    from loss_grammar import Grammar
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

LOSSES = int(os.environ.get("RANNC_LOSSES", 40))
SEED = int(os.environ.get("RANNC_LOSSES_SEED", random.randrange(2**31)))
# Devices of each stage; of 7 samples, every micro-batch is uneven.
CUTS, MICRO_BATCHES = ["1", "1,1", "2,1"], [1, 2, 3, 4]
# Of the norm of all gradients, and of the loss, where the step runs in float16: one kink that rounding crosses is a few percent.
HALF, LOSS_SCALE = 0.1, 16


class LossTest(programs.ProgramTest):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)

    def made(self, text, seed):
        """The folder of a loss and what the exporters refuse of it."""
        folder = self.scratch / f"loss-{len(list(self.scratch.iterdir()))}"
        return folder, loss_folders.write_folder(folder, loss_folders.Loss(text, seed), loss_folders.mini_batch(seed))


class Random(LossTest):
    def test_every_loss_of_the_grammar_is_divided(self):
        print(f"RANNC_LOSSES_SEED={SEED}", flush=True)
        table = loss_examples.Table(MODELS)
        for seed in range(SEED, SEED + LOSSES):
            text = Grammar(random.Random(seed)).loss()
            with self.subTest(seed=seed, loss=text):
                folder, refused = self.made(text, seed)
                self.assertEqual(refused, {}, "the grammar has only what every exporter writes")
                for form in MODELS:
                    with self.subTest(form=form):
                        found = loss_folders.outcome(self, folder, form, CUTS, MICRO_BATCHES)
                        table.add(text, form, found.kind)
                        self.assertEqual(found.kind, "right", found.text)
                half = list(MODELS)[seed % len(MODELS)]
                with self.subTest(form=half, precision="fp16"):
                    self.assertEqual(table.rows[text].get(half), "right", "see above")
                    self.judge_half(folder, half)
        print(table.totals(), flush=True)

    def judge_half(self, folder, form):
        loss, gradients = loss_folders.half_gradients(self, folder, form, 3, LOSS_SCALE)
        reference = safetensors.torch.load_file(folder / "reference.safetensors")
        expected = {name: reference[f"state.f64/{name}"] for name in gradients}
        self.assertLess(abs(loss - reference["loss.f64"].item()), HALF * abs(reference["loss.f64"].item()))
        norm = sum(gradient.norm() ** 2 for gradient in expected.values()) ** 0.5
        for name, gradient in gradients.items():
            self.assertLess((gradient - expected[name]).norm().item(), HALF * norm.item(), name)


class NotLinear(LossTest):
    def test_they_are_refused_divided_and_right_undivided(self):
        """What a message calls a task or a sum is its node in the file of torch.export."""
        for text, names in loss_examples.NOT_LINEAR.items():
            folder, refused = self.made(text, 1)
            for form in MODELS:
                if form == "legacy" and "detach" in text:
                    continue  # the exporter leaves no trace of it
                with self.subTest(loss=text, form=form):
                    self.assertNotIn(form, refused)
                    found = loss_folders.outcome(self, folder, form, CUTS[:2], [1, 2])
                    self.assertEqual(found.kind, "undivided", found.text)
                    self.assertEqual(found.text.count("error: "), 1, found.text)
                    self.assertRegex(found.text, r"cannot be divided, but 2 micro-batches are requested \[P15\]")
                    for name in names if form == "export" else []:
                        self.assertRegex(found.text, rf"(?<!\w){name}(?!\w)")


class Examples(LossTest):
    """Each loss is right, undivided at least, or refused by name."""

    def judge(self, losses):
        table = loss_examples.Table(MODELS)
        for text in losses:
            folder, refused = self.made(text, 1)
            for form in MODELS:
                if form in refused:
                    table.add(text, form, "no export")
                    continue
                with self.subTest(loss=text, form=form):
                    found = loss_folders.outcome(self, folder, form, CUTS[:2], [1, 2])
                    table.add(text, form, found.kind)
                    self.assertIn(found.kind, ("right", "undivided", "refused"), found.text)
                    if found.kind != "right":
                        self.assertRegex(found.text, r"(?m)^[^\n]*'[^']+'[^\n]*: error: ", "the error names a task")
        print(table, flush=True)

    def test_ways_to_write_a_divisor(self):
        self.assertEqual(len(loss_examples.DIVISORS), 31)
        self.judge(loss_examples.DIVISORS)

    def test_losses_of_the_library(self):
        self.assertEqual(len(loss_examples.LIBRARY), 26)
        self.judge(loss_examples.LIBRARY)


class Judge(LossTest):
    """The tests above can fail."""

    def test_a_wrong_reference_shows(self):
        folder, refused = self.made("F.cross_entropy(z.flatten(0, 1), y.flatten())", 1)
        self.assertEqual(refused, {})
        path = folder / "reference.safetensors"
        right = safetensors.torch.load_file(path)
        for form in MODELS:
            kind = "file64" if form in ("legacy", "dynamo") else "f64"
            for key in (f"{'grad' if kind == 'file64' else 'state'}.{kind}/first", f"loss.{kind}"):
                with self.subTest(form=form, key=key):
                    safetensors.torch.save_file({**right, key: right[key] * (1 + 1e-7)}, path)
                    self.assertEqual(loss_folders.outcome(self, folder, form, ["1"], [1, 2]).kind, "wrong")
            safetensors.torch.save_file(right, path)
            self.assertEqual(loss_folders.outcome(self, folder, form, ["1"], [1, 2]).kind, "right")


if __name__ == "__main__":
    programs.main()
