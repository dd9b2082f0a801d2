"""Trains small_regression by PyTorch's optimizers in float64 and writes small_regression/trajectories.safetensors:

    python tests/data/trajectories.py

with torch and safetensors. Per case of CASES, 20 steps over the one mini-batch of the folder: `<case>/loss` and
`<case>/norm` (of the gradient, before clipping) by step, and `<case>/<parameter>` after the last; and `rates/<decay>`, the
learning rates of its schedulers. The cases stand again, as options of ours, in tests/runtime/train/trajectories_test.cc.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import models  # noqa: E402

STEPS = 20
WARMUP, DECAY = 4, 14  # the rate rises over the first, and has fallen to a tenth at the second

# name: (optimizer, its arguments, scheduled, largest norm of the gradient)
CASES = {
    "sgd": (torch.optim.SGD, {"lr": 0.05}, False, None),
    "sgd-clip": (torch.optim.SGD, {"lr": 0.05}, False, 1.5),
    "momentum": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}, False, None),
    "momentum-all": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}, True, 1.5),
    "nesterov": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}, False, None),
    "adam": (torch.optim.Adam, {"lr": 0.01}, False, None),
    "adam-all": (torch.optim.Adam, {"lr": 0.03, "weight_decay": 0.1}, True, 1.5),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}, False, None),
    "adamw-all": (torch.optim.AdamW, {"lr": 0.03, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.3}, True, 1.5),
}


def scheduled(optimizer):
    """Linear warm-up, half a cosine down to a tenth, then constant."""
    lr = torch.optim.lr_scheduler
    rate = optimizer.param_groups[0]["lr"]
    return lr.SequentialLR(
        optimizer,
        [lr.LinearLR(optimizer, start_factor=1 / WARMUP, total_iters=WARMUP - 1),
         lr.CosineAnnealingLR(optimizer, T_max=DECAY - WARMUP, eta_min=0.1 * rate),
         lr.ConstantLR(optimizer, factor=0.1, total_iters=STEPS)],
        milestones=[WARMUP, DECAY])


def rates():
    """The learning rate of each update by PyTorch's schedulers: 0.03, after a warm-up of WARMUP updates."""
    lr = torch.optim.lr_scheduler

    def sequence(parts, milestones):
        return lambda optimizer: lr.SequentialLR(
            optimizer, [lr.LinearLR(optimizer, start_factor=1 / WARMUP, total_iters=WARMUP - 1), *(part(optimizer) for part in parts)],
            milestones=[WARMUP, *milestones])

    def line(updates):
        return lambda optimizer: lr.LinearLR(optimizer, start_factor=1, end_factor=0.25, total_iters=updates)

    def constant(optimizer):
        return lr.ConstantLR(optimizer, factor=1, total_iters=STEPS)

    kinds = {
        "cosine": scheduled,
        "linear": sequence([line(DECAY - WARMUP)], []),
        "wsd": sequence([constant, line(3)], [12]),  # a fifth of 15 steps
        "inverse-sqrt": sequence([lambda optimizer: lr.LambdaLR(optimizer, lambda update: (WARMUP / (WARMUP + update)) ** 0.5)], []),
        "constant": sequence([constant], []),
    }
    found = {}
    for name, kind in kinds.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.03)
        scheduler, listed = kind(optimizer), []
        for _ in range(STEPS):
            listed.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        found[f"rates/{name}"] = torch.tensor(listed, dtype=torch.float64)
    return found


def loss_of(outputs, batch, terms):
    return sum(term["weight"] * torch.nn.functional.mse_loss(output, batch["labels/" + term["labels"]])
               for output, term in zip(outputs, terms))


def train(batch, optimizer, arguments, schedule, limit):
    model = models.small_regression()
    module = model["module"].double()
    optimizer = optimizer(module.parameters(), **arguments)
    schedule = scheduled(optimizer) if schedule else None
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module(batch["x/left"], batch["x/right"]), batch, model["loss"])
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), limit or float("inf")).item())
        optimizer.step()
        if schedule:
            schedule.step()
    return losses, norms, module.state_dict()


def main():
    folder = HERE / "small_regression"
    batch = {name: tensor.double() for name, tensor in load_file(folder / "batch.safetensors").items()}
    found = rates()
    for name, case in CASES.items():
        losses, norms, state = train(batch, *case)
        found[f"{name}/loss"] = torch.tensor(losses, dtype=torch.float64)
        found[f"{name}/norm"] = torch.tensor(norms, dtype=torch.float64)
        found.update({f"{name}/{parameter}": tensor for parameter, tensor in state.items()})
    save_file(found, folder / "trajectories.safetensors", metadata={"torch": torch.__version__})


if __name__ == "__main__":
    main()
