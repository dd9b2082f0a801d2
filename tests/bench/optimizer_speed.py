"""Updates of parameters with and without clipping beside PyTorch's fused optimizers, in turns, one thread each:

    python tests/bench/optimizer_speed.py BIN FOLDER [--before BENCH-OPTIMIZER] [--only gpt2,resnet50] [--rounds 30]

with torch, torchvision and transformers. BIN has bench-optimizer; `--before` is that program of another version. PyTorch clips with
`clip_grad_norm_(foreach=True)` and updates with `fused=True`. Times are processor time, medians over the rounds.
"""
import argparse
import os
import pathlib
import statistics
import time

import torch

from raw_speed import KEEPS_MEMORY, Side, interval

WARM_UP = 3
LIMIT = 0.01  # far below any norm here: gradients are scaled in each update
OPTIMIZERS = {
    "adam": ([], lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True)),
    "adamw": (["--weight-decay", 0.01], lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.01, fused=True)),
    "sgd": (["--momentum", 0.9], lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)),
}


def shapes_of(model):
    if model == "gpt2":
        import transformers
        with torch.device("meta"):
            module = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    else:
        import torchvision
        with torch.device("meta"):
            module = torchvision.models.resnet50()
    return [list(parameter.shape) for parameter in module.parameters()]


class OfTorch:
    """PyTorch in this process."""

    def __init__(self, shapes, make, limit):
        self.parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        self.gradients = [torch.randn(shape) for shape in shapes]
        self.optimizer, self.limit, self.ran = make(self.parameters), limit, []

    def step(self):
        for parameter, gradient in zip(self.parameters, self.gradients):
            parameter.grad = gradient
        start = time.process_time()
        if self.limit:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.limit, foreach=True)
        self.optimizer.step()
        self.ran.append(time.process_time() - start)

    def end(self):
        pass


def measured(arguments, shapes, file, optimizer, limit):
    flags, make = OPTIMIZERS[optimizer]
    programs = {"after": arguments.bin / "bench-optimizer", **({"before": arguments.before} if arguments.before else {})}
    environment = {"GLIBC_TUNABLES": KEEPS_MEMORY}
    sides = {name: Side(name, [path, file, "--optimizer", optimizer, *flags, "--clip-norm", limit], environment.items())
             for name, path in programs.items()}
    sides["torch"] = OfTorch(shapes, make, limit)
    # Whoever steps first finds other caches: each takes each place in turn.
    turns = list(sides.values())
    for _ in range(arguments.rounds + WARM_UP):
        for side in turns:
            side.step()
        turns.append(turns.pop(0))
    for side in sides.values():
        side.end()
    return {name: side.ran[WARM_UP:] for name, side in sides.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--only", default="gpt2,resnet50")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(arguments.folder, exist_ok=True)
    for model in arguments.only.split(","):
        shapes = shapes_of(model)
        file = arguments.folder / f"{model}.shapes"
        file.write_text("".join(" ".join(map(str, shape)) + "\n" for shape in shapes))
        for optimizer in OPTIMIZERS:
            for limit in (0, LIMIT):
                ran = measured(arguments, shapes, file, optimizer, limit)
                text = f"{model:9} {optimizer:6} {'clipped' if limit else 'not clipped':12}"
                for name, seconds in ran.items():
                    text += f" {name} {1e3 * statistics.median(seconds):8.2f} ms"
                low, high = interval([theirs / ours for theirs, ours in zip(ran["torch"], ran["after"])])
                print(f"{text}  torch / after {low:.3f} to {high:.3f}", flush=True)


if __name__ == "__main__":
    main()
