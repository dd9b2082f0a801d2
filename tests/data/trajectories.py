"""Trains small_regression by PyTorch's optimizers in float64 and writes small_regression/trajectories.safetensors:

    python tests/data/trajectories.py

with torch and safetensors. Per case of CASES, 20 or 200 steps over the one mini-batch of the folder: `<case>/loss` and
`<case>/norm` (of the gradient, before clipping) by step, and after the last `<case>/<parameter>` and, of averages,
`<case>/average/<parameter>`; `<case>/error32`, by how much the losses of PyTorch's own run in float32 are off, of 20 steps; and
`rates/<decay>`, the learning rates of its schedulers. Muon computes in bfloat16, so that its bits depend on the processor: `probe/x` and
`probe/gram` are a matrix and its product with itself. The cases stand again, as options of ours, in tests/runtime/train/trajectories_test.cc.
"""
import math
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from torch.optim import swa_utils

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import models  # noqa: E402

STEPS, LONG = 20, 200
WARMUP, DECAY = 4, 14  # the rate rises over the first, and has fallen to a tenth at the second



class Lion(torch.optim.Optimizer):
    """Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1."""

    def __init__(self, parameters, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = group["betas"][0] * m + (1 - group["betas"][0]) * p.grad
                p.sub_(group["lr"] * (update.sign() + group["weight_decay"] * p))
                m.copy_(group["betas"][1] * m + (1 - group["betas"][1]) * p.grad)


def of(kind, **arguments):
    """One optimizer for all parameters."""
    return lambda named: [kind([p for _, p in named], **arguments)]


def muon(**arguments):
    """Muon for matrices, AdamW of the same rate and decay for the rest."""

    def made(named):
        rest = {"lr": arguments["lr"], "weight_decay": arguments["weight_decay"]}
        return [torch.optim.Muon([p for _, p in named if p.ndim == 2], **arguments),
                torch.optim.AdamW([p for _, p in named if p.ndim != 2], **rest)]

    return made


def grouped(named):
    """Slow embeddings, no decay of biases, SGD for one head, Muon for one layer."""

    def chosen(fits):
        return [p for name, p in named if fits(name)]

    def is_apart(name):
        return name.startswith(("fine.", "left.")) or name == "join.weight"

    adamw = torch.optim.AdamW([
        {"params": chosen(lambda name: name.endswith("weight") and not is_apart(name)), "weight_decay": 0.2},
        {"params": chosen(lambda name: name.endswith("bias") and not is_apart(name)), "weight_decay": 0.0},
        {"params": chosen(lambda name: name == "left.weight"), "weight_decay": 0.2, "lr": 0.002},
        {"params": chosen(lambda name: name == "left.bias"), "weight_decay": 0.0, "lr": 0.002}], lr=0.02)
    return [adamw,
            torch.optim.SGD([{"params": chosen(lambda name: name == "fine.weight"), "weight_decay": 0.2},
                             {"params": chosen(lambda name: name == "fine.bias"), "weight_decay": 0.0}],
                            lr=0.01, momentum=0.9, nesterov=True),
            torch.optim.Muon(chosen(lambda name: name == "join.weight"), lr=0.02, weight_decay=0.2, momentum=0.9)]


# name: (optimizers of named parameters, scheduled, largest norm of the gradient, weight of averages, steps)
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
CASES = {
    "sgd": (of(SGD, lr=0.05), False, None, None, STEPS),
    "sgd-clip": (of(SGD, lr=0.05), False, 1.5, None, STEPS),
    "momentum": (of(SGD, lr=0.02, momentum=0.9, weight_decay=0.01), False, None, None, STEPS),
    "momentum-all": (of(SGD, lr=0.02, momentum=0.9, weight_decay=0.01), True, 1.5, None, STEPS),
    "nesterov": (of(SGD, lr=0.02, momentum=0.9, weight_decay=0.01, nesterov=True), False, None, None, STEPS),
    "adam": (of(Adam, lr=0.01), False, None, None, STEPS),
    "adam-all": (of(Adam, lr=0.03, weight_decay=0.1), True, 1.5, None, STEPS),
    "adamw": (of(AdamW, lr=0.01, weight_decay=0.1), False, None, None, STEPS),
    "adamw-all": (of(AdamW, lr=0.03, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3), True, 1.5, None, STEPS),
    "amsgrad": (of(AdamW, lr=0.03, weight_decay=0.1, amsgrad=True), False, None, None, LONG),
    "lion": (of(Lion, lr=0.01, weight_decay=0.1), False, None, None, LONG),
    "adafactor": (of(torch.optim.Adafactor, lr=0.05, weight_decay=0.1), False, 1.5, None, LONG),
    "muon": (muon(lr=0.02, weight_decay=0.1), False, None, None, LONG),
    "muon-all": (muon(lr=0.01, weight_decay=0.1, momentum=0.9, nesterov=False, adjust_lr_fn="match_rms_adamw"), True, 1.5, 0.9,
                 LONG),
    "groups": (grouped, True, 1.5, 0.95, LONG),
}


def scheduled(optimizer):
    """Linear warm-up, half a cosine down to a tenth, then constant."""
    lr = torch.optim.lr_scheduler
    rate = optimizer.param_groups[0]["lr"]
    if len(optimizer.param_groups) > 1:  # CosineAnnealingLR has one least rate for all groups
        def factor(update):
            if update < WARMUP:
                return (update + 1) / WARMUP
            return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1, (update - WARMUP) / (DECAY - WARMUP))))

        return lr.LambdaLR(optimizer, factor)
    return lr.SequentialLR(
        optimizer,
        [lr.LinearLR(optimizer, start_factor=1 / WARMUP, total_iters=WARMUP - 1),
         lr.CosineAnnealingLR(optimizer, T_max=DECAY - WARMUP, eta_min=0.1 * rate),
         lr.ConstantLR(optimizer, factor=0.1, total_iters=LONG)],
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


def train(dtype, batch, make, schedule, limit, average, steps):
    model = models.small_regression()
    module = model["module"].to(dtype)
    batch = {name: tensor.to(dtype) for name, tensor in batch.items()}
    optimizers = make(list(module.named_parameters()))
    schedules = [scheduled(optimizer) for optimizer in optimizers] if schedule else []
    averaged = swa_utils.AveragedModel(module, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(average)) if average else None
    losses, norms = [], []
    for _ in range(steps):
        module.zero_grad()
        loss = loss_of(module(batch["x/left"], batch["x/right"]), batch, model["loss"])
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), limit or float("inf")).item())
        for each in optimizers + schedules:
            each.step()
        if averaged:
            averaged.update_parameters(module)
    state = dict(module.state_dict())
    if averaged:
        state.update({f"average/{name}": tensor for name, tensor in averaged.module.state_dict().items()})
    return losses, norms, state


def main():
    folder = HERE / "small_regression"
    batch = load_file(folder / "batch.safetensors")
    found = rates()
    for name, case in CASES.items():
        losses, norms, state = train(torch.float64, batch, *case)
        found[f"{name}/loss"] = torch.tensor(losses, dtype=torch.float64)
        exact, narrow = found[f"{name}/loss"][:STEPS], train(torch.float32, batch, *case)[0][:STEPS]
        found[f"{name}/error32"] = (torch.tensor(narrow, dtype=torch.float64) - exact).norm() / exact.norm()
        found[f"{name}/norm"] = torch.tensor(norms, dtype=torch.float64)
        found.update({f"{name}/{parameter}": tensor.clone() for parameter, tensor in state.items()})
    x = torch.randn(20, 40, generator=torch.Generator().manual_seed(1)).bfloat16()
    found["probe/x"], found["probe/gram"] = x, torch.addmm(x @ x.T, x @ x.T, x @ x.T, beta=-4.775, alpha=2.0315)
    save_file(found, folder / "trajectories.safetensors", metadata={"torch": torch.__version__})


if __name__ == "__main__":
    main()
