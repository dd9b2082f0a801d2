"""From a module of one's own to a trained pipeline: the program of tutorial.md.

usage: python tutorial.py [FOLDER]        or        torchrun --nproc-per-node=2 tutorial.py [FOLDER]
"""
import sys
from pathlib import Path

import rannc
import torch
from torch import nn

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tutorial.out")


# 1. A module
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Spirals(nn.Module):
    """Classifies points of the plane by the arm of a spiral on which they lie."""

    def __init__(self, width=128, depth=6, arms=3):
        super().__init__()
        self.lift = nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, arms)

    def forward(self, points):
        x = self.lift(points)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def samples(count, seed):
    generator = torch.Generator().manual_seed(seed)
    arms, radius = torch.randint(3, (count,), generator=generator), 0.2 + 0.8 * torch.rand(count, generator=generator)
    angle = 4 * radius + arms * (2 * torch.pi / 3) + 0.3 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), arms


# 2. Its loss and its optimizer
def loss(outputs, batch):
    return nn.functional.cross_entropy(outputs, batch[1])


def prepared():
    """A fresh network, its optimizer and its scheduler: nothing here is special to rannc."""
    torch.manual_seed(0)
    net = Spirals()
    matrices = [parameter for parameter in net.parameters() if parameter.ndim == 2]
    vectors = [parameter for parameter in net.parameters() if parameter.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=1e-3)
    return net, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 120)


def main():
    # 3. The trainer
    net, optimizer, scheduler = prepared()
    train, test = samples(4096, seed=1), samples(64, seed=2)
    example = (train[0][:64], train[1][:64])
    trainer = rannc.Trainer(net, example, loss=loss, optimizer=optimizer, cluster="local:2", stages=2, clip_norm=1)
    if trainer.rank == 0:
        print(trainer)
        print(trainer.bundle.plan)

    # 4. Steps
    order = torch.Generator().manual_seed(3)
    for step in range(80):
        rows = torch.randint(4096, (64,), generator=order)
        value = trainer.step((train[0][rows], train[1][rows]))
        scheduler.step()
        if step % 20 == 19 and trainer.rank == 0:
            print(f"step {step + 1}: loss {value:.4f}, gradient {value.gradient_norm:.3f}, rate {scheduler.get_last_lr()[0]:.2e}")

    # 5. Evaluation
    result = trainer.evaluate(test)
    if trainer.rank == 0:
        print(f"evaluation: loss {result.loss:.4f}")

    # 6. A checkpoint, continued under another plan
    trainer.save(folder)
    if trainer.rank == 0:
        torch.save([optimizer.state_dict(), scheduler.state_dict()], folder / "optimizer.pt")
    trainer.close()

    net, optimizer, scheduler = prepared()
    state = torch.load(folder / "optimizer.pt")
    optimizer.load_state_dict(state[0])
    scheduler.load_state_dict(state[1])
    trainer = rannc.Trainer(net, example, loss=loss, optimizer=optimizer, cluster="local:2", stages=1, clip_norm=1, resume=folder)
    if trainer.rank == 0:
        print(f"resumed at step {trainer.steps_done}: {trainer}")
    for step in range(trainer.steps_done, 120):
        rows = torch.randint(4096, (64,), generator=order)
        value = trainer.step((train[0][rows], train[1][rows]))
        scheduler.step()
    if trainer.rank == 0:
        print(f"step 120: loss {value:.4f}")

    # 7. Back to PyTorch
    trainer.to_module(net)
    rank = trainer.rank
    trainer.close()
    if rank == 0:
        with torch.no_grad():
            correct = (net.eval()(test[0]).argmax(1) == test[1]).float().mean()
        torch.save(net.state_dict(), folder / "spirals.pt")
        print(f"in PyTorch: {correct:.0%} of the test points are right")


if __name__ == "__main__":
    main()
