"""Trains a causal language model of transformers on a text file: the program of transformers.md.

usage: python finetune.py MODEL TEXT [OUTPUT]        or        torchrun --nproc-per-node=2 finetune.py MODEL TEXT [OUTPUT]

MODEL: a folder of save_pretrained or a name on the hub
TEXT: a text file, of which each line is a sample
OUTPUT: folder for the trained model and its tokenizer
"""
import sys
from pathlib import Path

import rannc
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

LENGTH, MINI_BATCH, STEPS = 64, 8, 40


class Lines(torch.utils.data.Dataset):
    """The token ids of the lines of a file, of different lengths."""

    def __init__(self, path, tokenizer):
        lines = [line for line in Path(path).read_text().splitlines() if line.strip()]
        self.ids = tokenizer(lines, truncation=True, max_length=LENGTH)["input_ids"]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return torch.tensor(self.ids[index])


def padded(samples):
    """A batch of equal lengths: padding has no attention and no label."""
    lengths = torch.tensor([len(each) for each in samples])
    ids = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.long(), "labels": ids.masked_fill(~mask, -100)}


def main(name, text, output="finetune.out"):
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, use_cache=False, dtype=torch.float32)
    model.train()  # from_pretrained returns the evaluation mode, without dropout
    data = Lines(text, tokenizer)

    # The example decides on sizes: two or more samples, and a length for which time and memory are predicted.
    example = padded([torch.zeros(LENGTH, dtype=torch.int64)] * MINI_BATCH)
    sequence = {1: "sequence"}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    trainer = rannc.Trainer(model, example, optimizer=optimizer, cluster="local:2", stages=2, clip_norm=1,
                            dynamic={"input_ids": sequence, "attention_mask": sequence, "labels": sequence})
    if trainer.rank == 0:
        print(trainer)

    batches = DataLoader(data, batch_sampler=rannc.Sampler(trainer, data, shuffle=True), collate_fn=padded, num_workers=1)
    while trainer.steps_done < STEPS:
        for batch in batches:
            loss = trainer.step(batch)
            if trainer.steps_done % 10 == 0 and trainer.rank == 0:
                print(f"step {trainer.steps_done}: loss {loss:.4f}, {batch['input_ids'].shape[1]} tokens")
            if trainer.steps_done == STEPS:
                break

    trainer.to_module(model)
    if trainer.rank == 0:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
        print(f"wrote {output}")
    trainer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
