"""The Python package of a build for the tests beside this file, which are skipped without PyTorch or the package."""
import pathlib
import sys

import programs

try:
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

BIN = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path("bin")
FOLDER = BIN.parent / "python"
sys.path.insert(0, str(FOLDER))
try:
    import rannc
except ImportError as missing:
    print(f"skipped: no package for this Python: {missing}")
    sys.exit(programs.SKIPPED)


class Classifier(nn.Module):
    """Two hidden layers with a normalization of each sample, and words."""

    def __init__(self, words=20, width=16, classes=5):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.first, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.second, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, tokens):
        hidden = self.norm(self.first(self.words(tokens)).relu())
        return self.head(self.second(hidden).tanh().mean(1))


def made(dtype=torch.float64, seed=3):
    torch.manual_seed(seed)
    return Classifier().to(dtype)


def batches(count, samples=8, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return [{"tokens": torch.randint(20, (samples, 6), generator=generator),
             "labels": torch.randint(5, (samples,), generator=generator)} for _ in range(count)]


def loss(outputs, batch):
    return nn.functional.cross_entropy(outputs, batch["labels"])


def groups(net):
    """As training scripts divide them: no decay of vectors, another rate of the words."""
    vectors = [parameter for parameter in net.parameters() if parameter.ndim < 2]
    matrices = [parameter for parameter in net.parameters() if parameter.ndim > 1 and parameter is not net.words.weight]
    return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}, {"params": [net.words.weight], "lr": 3e-3}]


def reference_step(net, optimizers, batch_list, clip=None):
    """A step of PyTorch over the mean of the losses. Returns the loss."""
    total = 0.0
    for optimizer in optimizers:
        optimizer.zero_grad()
    for batch in batch_list:
        value = loss(net(batch["tokens"]), batch) / len(batch_list)
        value.backward()
        total += value.item()
    if clip:
        nn.utils.clip_grad_norm_(net.parameters(), clip)
    for optimizer in optimizers:
        optimizer.step()
    return total


def largest_difference(states, others):
    return max(float((states[name].double() - others[name].double()).abs().max()) for name in others)
