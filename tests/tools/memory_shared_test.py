"""The memory of every published export is what its plan predicts, by schedule and recompute mode: within 2 %, but for those named below."""
import json
import unittest

import every_folder
import memory_runs
import programs

DEVICES, MICRO_BATCHES = 2, 4
SCHEDULES = {"1f1b": ["--stages", DEVICES], "gpipe": ["--stages", DEVICES], "zb-h1": ["--stages", DEVICES],
             "zb-v": ["--stages", 2 * DEVICES, "--stages-per-device", 2]}
# How far exports are off that are beyond the limit, by the beginning of their names: kernels of convolutions over a few channels and of
# attention's gradient, products that are added to a sum, values of a symbolic length. Their devices hold less than 4 MB.
OFF = {"llama_unoptimized": 0.05, "llama_legacy": 0.035, "llama_dynamo_dynseq": 0.085, "gpt2_dynamo_auto": 0.09, "gpt2_dynamo_dynseq": 0.06,
       "bert_mlm": 0.075, "resnet": 0.04, "t5_dynamo": 0.021, "two_task": 0.035, "unet_folded": 0.05, "vit": 0.08}
RECOMPUTE = {"never": [], "always": [], "except-last": [], "selective": ["--recompute-budget", 15]}


def loss_of(card):
    """Terms of rannc-compile."""
    facts = {"output": "output", "labels": "labels", "axis": "class_axis", "ignore_index": "ignore_index", "weight": "weight"}
    said = [[f"{name}={term[key]}" for name, key in facts.items() if term.get(key) is not None] for term in card["loss"]]
    return "+".join(f"{term['kind']}({','.join(words)})" for term, words in zip(card["loss"], said))


def assumed(card, batch):
    """Sizes of the inputs' axes after the first, where they are symbols."""
    sizes = {}
    for name, (_, *dims) in card["inputs"].items():
        sizes.update(zip(dims[1:], batch[f"x/{name}"][1][1:]))
    return [flag for symbol, size in sizes.items() if isinstance(symbol, str) for flag in ("--assume", f"{symbol}={size}")]


@unittest.skipUnless(programs.shared_models(), "no published models")
class MemorySharedTest(memory_runs.MemoryRuns):
    def expect_all(self, folder):
        card = json.loads((folder / "card.json").read_text())
        mini_batch = 4 if "ambiguous" in folder.name else 8
        more = assumed(card, programs.read_safetensors(folder / "batch.safetensors"))
        limit = next((off for name, off in OFF.items() if folder.name.startswith(name)), memory_runs.LIMIT)
        for schedule, places in SCHEDULES.items():
            for recompute, budget in RECOMPUTE.items():
                with self.subTest(schedule=schedule, recompute=recompute):
                    self.expect(folder / "model.onnx", loss_of(card), ["--data", folder / "batch.safetensors"], DEVICES, *places,
                                "--mini-batch", mini_batch, "--micro-batches", MICRO_BATCHES, "--schedule", schedule,
                                "--recompute", recompute, *budget, *more, optimizer="sgd", limit=limit)


def add_tests():
    for folder in sorted(programs.shared_models().iterdir()) if programs.shared_models() else []:
        if (folder / "card.json").exists() and folder.name != every_folder.INVALID:
            setattr(MemorySharedTest, f"test_{folder.name}", lambda self, folder=folder: self.expect_all(folder))


add_tests()

if __name__ == "__main__":
    programs.main()
