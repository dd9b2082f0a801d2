"""Published exports give the reference numbers whatever the cut, by workers that stay up."""
import json
import shutil
import sys

import programs
from products import ProductTest

MODELS = ["mlp_dynamo_dyn", "mlp_legacy_dyn", "mlp_mse_dyn", "mlp_external_files", "gpt2_dynamo_dyn", "bert_dynamo_dyn",
          "vgg_dynamo_dyn", "resnet_folded_dynamo"]
# A stage that holds next to nothing would prove nothing about its cut.
LEAST_SHARE = 0.1


class CheckModels(ProductTest):
    def test_float64(self):
        folders = [programs.shared_models() / name for name in MODELS]
        self.judge(folders, ["local"], least_share=LEAST_SHARE)
        self.judge_divided(folders, ["gloo"], least_share=LEAST_SHARE)

    def test_float32(self):
        folders = [programs.shared_models() / name for name in MODELS]
        product = {"stages": [1, 3], "micro_batches": [3], "schedule": ["1f1b"], "recompute": ["never"]}
        self.judge(folders, ["local"], dtype="float32", product=product, least_share=LEAST_SHARE)


class BakedBatches(ProductTest):
    """Exports whose batch is a number: any number of micro-batches, or one where it stays."""
    PRODUCT = {"stages": [1, 3], "micro_batches": [1, 3, 8], "schedule": ["gpipe", "1f1b"]}

    def test_numbers(self):
        folders = [programs.shared_models() / name for name in ("gpt2_dynamo_b8", "gpt2_legacy_b8", "lstm_legacy_b8")]
        for dtype in ("float64", "float32"):
            done, runs = programs.check(folders, dtype=dtype, **self.PRODUCT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(runs), 36)
            self.assertEqual({run["micro_batches"] for run in runs}, {1, 3, 8})

    def test_statistics_of_the_whole_batch(self):
        folder = programs.shared_models() / "resnet_train_legacy_b8"
        for dtype in ("float64", "float32"):
            done, runs = programs.check([folder], dtype=dtype, **{**self.PRODUCT, "micro_batches": [1]})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(runs), 4)

    def test_any_mini_batch(self):
        model = programs.shared_models() / "gpt2_dynamo_ambiguous_b4" / "model.onnx"
        flags = [model, "--loss", "cross_entropy(output=logits,labels=y)", "--costs", "analytic", "--emit=plan"]
        self.assertIn("mini_batch 32", self.succeed("rannc-compile", *flags, "--mini-batch", 32).stdout)
        self.assertIn("mini_batch 4", self.succeed("rannc-compile", *flags).stdout)

    def test_they_are_not_split_where_the_number_stays(self):
        folder = programs.shared_models() / "gpt2_dynamo_b8"
        self.refuse(1, ["gpt2_dynamo_b8/model.onnx", "P15", "--micro-batches 3"], "rannc-check", folder, "--micro-batches", 3,
                    "--skip-pass", "rebatch")
        self.refuse(1, ["gpt2_dynamo_b8/model.onnx", "P15", "a mini-batch of 32"], "rannc-compile", folder / "model.onnx", "--loss",
                    "cross_entropy(output=logits,labels=y)", "--costs", "analytic", "--emit=plan", "--mini-batch", 32,
                    "--skip-pass", "rebatch")


class MergedInitialValues(ProductTest):
    """Parameters that an exporter made one of are trained each by itself, by the names of the module."""

    def test_all_are_compared(self):
        for name in ("bert_fresh_dynamo", "bert_fresh_legacy"):
            folder = programs.shared_models() / name
            card = json.loads((folder / "card.json").read_text())
            done = self.succeed("rannc-check", folder, "--stages", "1,3", "--micro-batches", "1,3", "--dtype", "float32", "--summary=json")
            for run in map(json.loads, done.stdout.splitlines()):
                # The older exporter does not record the padding index of a table, the newer one stores only the looked up rows of tables.
                said = ["only row 0 of 'bert.embeddings.word_embeddings.weight' is all zeros" if name.endswith("legacy") else
                        "the exporter computed tensors from parameters that the file does not have"]
                self.assertEqual([warning.split(",")[0] for warning in run["warnings"]], said)
                # All 41 parameters of the module, but for rows of a table of positions that are not looked up.
                self.assertEqual(run["compared_gradients"], 41, name)
            self.assertGreaterEqual(len(card["parameters_without_initializer"]), 20)

    def test_sum_of_the_copies(self):
        for name in ("bert_fresh_dynamo", "bert_fresh_legacy"):
            done = self.succeed("rannc-check", programs.shared_models() / name, "--stages", "1,3", "--micro-batches", "1,3")
            self.assertIn("4 passed, 0 failed", done.stdout)


class WhatIsTrained(ProductTest):
    """A card that knows less, and one that knows more, than is trained."""

    def spoiled(self, change):
        folder = self.scratch / "folder"
        shutil.copytree(programs.shared_models() / "mlp_mse_dyn", folder)
        card = json.loads((folder / "card.json").read_text())
        change(card)
        (folder / "card.json").write_text(json.dumps(card))
        done = self.run_program("rannc-check", folder, "--stages", 2, "--summary=json")
        self.assertEqual(done.returncode, 1, done.stdout)
        return json.loads(done.stdout)["failures"]

    def test_trained_beyond_the_card(self):
        failures = self.spoiled(lambda card: card.update(float_initializers_that_are_constants={"layers.0.bias": []}))
        self.assertEqual(failures, ["gradient of layers.0.bias: it is trained, but is not a parameter of the original model"])

    def test_known_but_not_made(self):
        failures = self.spoiled(lambda card: card.update(parameter_of_initializer={"absent": {"state_dict": "absent", "transform": "none"}}))
        self.assertEqual(failures, ["gradient of absent: we have none"])


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
