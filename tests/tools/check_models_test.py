"""Published exports give the reference numbers whatever the cut: the whole product, by workers that stay up."""
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
        self.judge(folders, ["local", "gloo"], least_share=LEAST_SHARE)

    def test_float32(self):
        folders = [programs.shared_models() / name for name in MODELS]
        product = {"stages": [1, 3], "micro_batches": [3], "schedule": ["1f1b"], "recompute": ["never"]}
        self.judge(folders, ["local"], dtype="float32", product=product, least_share=LEAST_SHARE)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
