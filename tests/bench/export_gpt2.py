"""Writes GPT-2 small (124 M parameters, fresh weights, 64 tokens, any batch) as PyTorch exports it, and samples for it:

    python tests/bench/export_gpt2.py FOLDER

with torch, transformers, onnx, onnxscript and safetensors. FOLDER then holds gpt2.onnx, whose weights are external data,
and data.safetensors, 64 samples of random tokens. Nothing is downloaded.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

TOKENS, SAMPLES = 64, 64


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    config = GPT2Config(use_cache=False, attn_implementation="eager")
    model = Logits(GPT2LMHeadModel(config)).eval()
    tokens = torch.randint(0, config.vocab_size, (4, TOKENS))
    batch = torch.export.Dim("batch", min=1, max=1024)
    torch.onnx.export(model, (tokens,), folder / "gpt2.onnx", dynamo=True, external_data=True, input_names=["input_ids"],
                      output_names=["logits"], dynamic_shapes={"input_ids": {0: batch}})
    save_file({"x/input_ids": torch.randint(0, config.vocab_size, (SAMPLES, TOKENS)),
               "labels/targets": torch.randint(0, config.vocab_size, (SAMPLES, TOKENS))}, folder / "data.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
