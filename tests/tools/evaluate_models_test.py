"""The plain commands, without a flag, give the outputs of published exports."""
import sys

import evaluate_test
import programs

# Whose outputs the references have of an evaluation: no statistics of the batch, no dropout.
MODELS = ["bert_dynamo_dyn", "gpt2_legacy_dyn", "lstm_dynamo_dyn", "resnet_folded_dynamo"]


class PlainCommand(evaluate_test.PlainTest):
    def test_published_models(self):
        for name in MODELS:
            with self.subTest(model=name):
                self.expect_reference(programs.shared_models() / name)


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()
