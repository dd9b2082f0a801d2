"""Two plans of one model, compiled with different flags, step by step in turns:

    python tests/bench/beside.py BIN FOLDER [--only gpt2] [--steps 30]

with the packages of raw_speed.py. `kept` is what a micro-batch keeps under the second plan, over what PyTorch's tape keeps for the
same samples. Exit status 1 where a row is beyond its limits.
"""
import re
import shlex
import statistics
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import raw_models
import raw_speed
import two_workers

TWO = "--stages 2 --replicas 1,1 --micro-batches 4 --recompute never"
ONE = "--stages 1 --micro-batches 4 --schedule gpipe"
# model, samples of a micro-batch, workers, flags of both, of the first and of the second; the most of the second's step over the first's,
# of the predicted error of the second, and of what it keeps
ROWS = [
    ("gpt2", 4, 2, TWO, "--schedule 1f1b", "--schedule zb-h1", 0.96, 0.05, None),
    ("gpt2", 16, 1, ONE, "--recompute never", "--recompute selective --recompute-budget 6", 1.06, None, 0.66),
    ("bert", 16, 1, ONE, "--recompute never", "--recompute selective --recompute-budget 3", 1.03, None, 0.66),
    ("vit", 16, 1, ONE, "--recompute never", "--recompute selective --recompute-budget 3", 1.03, None, 0.66),
]
MICRO_BATCHES = 4


def bytes_of_tape(name, data, samples):
    """Distinct memory that PyTorch's tape keeps of a forward pass, parameters and inputs apart."""
    module = raw_models.seeded(raw_models.MODELS[name].rival).train()
    tensors = {key: tensor[:samples] for key, tensor in load_file(data).items()}
    given = [tensors[f"x/{key}"] for key in raw_models.MODELS[name].inputs(1)]
    free = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers(), *given, tensors["labels/y"])}
    kept = {}

    def pack(tensor):
        if (storage := tensor.untyped_storage()).data_ptr() not in free:
            kept[storage.data_ptr()] = tensor  # alive, so that its address is not given again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = F.cross_entropy(module(*given).flatten(0, -2), tensors["labels/y"].flatten())
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del loss
    return total


class Bench(two_workers.Bench):
    COLUMNS = ["model", "mini-batch", "first", "second", "ms", "second / first", "95 %", "limit", "predicted", "kept", ""]

    def run(self, name, samples, workers, both, first, second, most, error, most_kept):
        mini_batch = MICRO_BATCHES * samples
        data = self.data_file(name, mini_batch)
        plans = [self.compiled(name, mini_batch, workers, f"{both} {flags}") for flags in (first, second)]
        cuts = [re.findall(r"^stage @\S+ tasks (\S+)", (path / "plan.rir").read_text(), re.MULTILINE) for path, _, _ in plans]
        if cuts[0] != cuts[1]:
            sys.exit(f"{name}: the cuts differ: {cuts}")
        sides = [self.side(name, path, mini_batch) for path, _, _ in plans]
        for turn in range(self.flags.warm_up + self.flags.steps):
            for side in sides if turn % 2 else reversed(sides):
                side.step()
        for side in sides:
            side.end()
        steps = slice(self.flags.warm_up, None)
        ratios = [b / a for a, b in zip(*(side.times[steps] for side in sides))]
        low, high = raw_speed.interval(ratios)
        ratio, step = statistics.median(ratios), [statistics.median(side.times[steps]) for side in sides]
        row = {"model": name, "mini_batch": mini_batch, "first": first, "second": second, "first_ms": 1e3 * step[0], "second_ms": 1e3 * step[1],
               "ratio": ratio, "low": low, "high": high, "most": most, "first_predicted": plans[0][1] / step[0] - 1,
               "predicted": plans[1][1] / step[1] - 1, "ok": ratio <= most}
        if error is not None:
            row["ok"] = row["ok"] and abs(row["predicted"]) <= error
        if most_kept is not None:
            kept = int(re.search(r"^time .*\bkept_bytes (\d+)", (plans[1][0] / "plan.rir").read_text(), re.MULTILINE).group(1))
            row["kept"] = kept / bytes_of_tape(name, data, samples)
            row["ok"] = row["ok"] and row["kept"] <= most_kept
        self.rows.append(row)
        self.print(row)

    def cells(self, row):
        return [row["model"], str(row["mini_batch"]), row["first"], row["second"], f"{row['first_ms']:.1f}, {row['second_ms']:.1f}",
                f"{row['ratio']:.3f}", f"{row['low']:.3f}–{row['high']:.3f}", f"{row['most']:.2f}",
                f"{100 * row['first_predicted']:+.1f} %, {100 * row['predicted']:+.1f} %", f"{row['kept']:.3f}" if "kept" in row else "",
                "" if row["ok"] else "beyond"]


def main():
    parser = two_workers.arguments(__doc__, "dynamo")
    parser.add_argument("--workers", type=int, choices=[1, 2], help="only rows of so many workers")
    flags = parser.parse_args()
    bench = Bench(flags)
    for row in ROWS:
        if row[0] in flags.only and flags.workers in (None, row[2]):
            bench.run(*row)
    sys.exit(0 if all(row["ok"] for row in bench.rows) else 1)


if __name__ == "__main__":
    main()
