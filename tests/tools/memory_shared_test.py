"""The memory of every published export is what its plan predicts, within 2 %, by schedule and recompute mode."""
import json
import unittest

import memory_runs
import programs

DEVICES, MICRO_BATCHES = 2, 4
SCHEDULES = {"1f1b": ["--stages", DEVICES], "gpipe": ["--stages", DEVICES], "zb-h1": ["--stages", DEVICES],
             "zb-v": ["--stages", 2 * DEVICES, "--stages-per-device", 2]}
# How far exports are off, by the beginning of their names: kernels of convolutions over a few channels, of attention's gradient, and
# products that are added to a sum. Everything else is within the limit.
OFF = {"llama_unoptimized": 0.05, "llama_legacy": 0.035, "resnet": 0.04, "unet_folded": 0.05, "vit": 0.08}
RECOMPUTE = {"never": [], "always": [], "except-last": [], "selective": ["--recompute-budget", 15]}


def losses(card):
    """Flags of rannc-compile."""
    facts = {"output": "output", "labels": "labels", "axis": "class_axis", "ignore_index": "ignore_index", "weight": "weight"}
    said = [[f"{name}={term[key]}" for name, key in facts.items() if term.get(key) is not None] for term in card["loss"]]
    return [flag for term, words in zip(card["loss"], said) for flag in ("--loss", f"{term['kind']}({','.join(words)})")]


@unittest.skipUnless(programs.shared_models(), "no published models")
class MemorySharedTest(memory_runs.MemoryRuns):
    def expect_all(self, folder):
        card = json.loads((folder / "card.json").read_text())
        mini_batch = 4 if "ambiguous" in folder.name else 8
        more = ["--train-batch-norm"] if card["mode"] == "training" and "BatchNormalization" in card["ops"] else []
        limit = next((off for name, off in OFF.items() if folder.name.startswith(name)), memory_runs.LIMIT)
        for schedule, places in SCHEDULES.items():
            for recompute, budget in RECOMPUTE.items():
                with self.subTest(schedule=schedule, recompute=recompute):
                    self.expect(folder / "model.onnx", losses(card), ["--data", folder / "batch.safetensors"], DEVICES, *places,
                                "--mini-batch", mini_batch, "--micro-batches", MICRO_BATCHES, "--schedule", schedule,
                                "--recompute", recompute, *budget, *more, optimizer="sgd", limit=limit)


def add_tests():
    for folder in sorted(programs.shared_models().iterdir()) if programs.shared_models() else []:
        if (folder / "card.json").exists():
            setattr(MemorySharedTest, f"test_{folder.name}", lambda self, folder=folder: self.expect_all(folder))


add_tests()

if __name__ == "__main__":
    programs.main()
