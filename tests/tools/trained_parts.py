"""Small modules, each of which reads its parameters, buffers and constants in a way that exporters write in a way of their own.

Each takes and gives [samples, WIDTH] numbers. The test beside it puts them together at random."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

WIDTH = 6


def parameter(*shape, scale=0.5, shift=0.0):
    return nn.Parameter(shift + scale * torch.randn(shape))


class Matrix(nn.Module):
    """A linear map whose weight `of` computes from one matrix and, by `other`, is added to the plain one."""

    def __init__(self, of=None, raw=False, buffer=False):
        super().__init__()
        self.w = parameter(WIDTH, WIDTH)
        self.of, self.raw = of, raw
        if buffer:
            self.register_buffer("mask", torch.bernoulli(torch.full((WIDTH, WIDTH), 0.6)))

    def forward(self, x):
        weight = self.of(self) if self.of else self.w
        y = F.linear(x, weight)
        return y + F.linear(x, self.w) if self.raw else y


class Vector(nn.Module):
    """What `of` makes of a vector and the data."""

    def __init__(self, of, shape=(WIDTH,), scale=0.5, shift=1.0):
        super().__init__()
        self.v = parameter(*shape, scale=scale, shift=shift)
        self.of = of

    def forward(self, x):
        return self.of(self.v, x)


class Constant(nn.Module):
    """A linear module and a table that no parameter is behind."""

    def __init__(self, of, buffer=None):
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.of = of
        if buffer is not None:
            self.register_buffer("table", buffer)

    def forward(self, x):
        return self.fc(x) + self.of(self, x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Graph(nn.Module):
    """A learned adjacency, normalised as graph networks do."""

    def __init__(self):
        super().__init__()
        self.adjacency, self.fc = nn.Parameter(torch.rand(WIDTH, WIDTH) + torch.eye(WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        degrees = self.adjacency.sum(1).clamp(min=1).rsqrt()
        return self.fc(x) @ (degrees[:, None] * self.adjacency * degrees[None])


def standardised(m):
    mean, var = m.w.mean(1, keepdim=True), m.w.var(1, keepdim=True, unbiased=False)
    return (m.w - mean) / torch.sqrt(var + 1e-5)


def waves(x):
    rate = torch.exp(torch.arange(WIDTH // 2, dtype=torch.float32) * -0.7)
    angle = torch.arange(1, 3, dtype=torch.float32)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1).sum(0)


def frequencies(x):
    rate = torch.exp(-math.log(100.0) * torch.arange(WIDTH, dtype=torch.float32) / WIDTH)
    return torch.sin(x[:, :1] * rate)


def slopes(x):
    distance = torch.arange(WIDTH, dtype=torch.float32)[None] - torch.arange(WIDTH, dtype=torch.float32)[:, None]
    scores = x[:, :, None] * x[:, None, :] + 0.25 * distance
    return (scores.softmax(-1) @ x[:, :, None])[..., 0]


# By name, what makes a part. `raw` ones read a parameter as it is, too.
PARTS = {
    "plain": lambda: Matrix(),
    "turned": lambda: Matrix(lambda m: m.w.t()),
    "raw_and_turned": lambda: Matrix(lambda m: m.w.t(), raw=True),
    "standardised": lambda: Matrix(standardised),
    "raw_and_standardised": lambda: Matrix(standardised, raw=True),
    "normalised": lambda: Matrix(lambda m: F.normalize(m.w, dim=-1)),
    "raw_and_normalised": lambda: Matrix(lambda m: F.normalize(m.w, dim=-1), raw=True),
    "raw_and_normalised_columns": lambda: Matrix(lambda m: F.normalize(m.w, dim=0), raw=True),
    "raw_and_abs": lambda: Matrix(lambda m: m.w.abs(), raw=True),
    "raw_and_softmax": lambda: Matrix(lambda m: m.w.softmax(-1), raw=True),
    "raw_and_scaled": lambda: Matrix(lambda m: m.w * 0.3 - 0.1, raw=True),
    "raw_and_symmetric": lambda: Matrix(lambda m: (m.w + m.w.t()) * 0.5, raw=True),
    "raw_and_masked": lambda: Matrix(lambda m: m.w * m.mask, raw=True, buffer=True),
    "raw_and_tril": lambda: Matrix(lambda m: torch.tril(m.w), raw=True),
    "raw_and_rows": lambda: Matrix(lambda m: torch.cat([m.w[:2], m.w[2:]]), raw=True),
    "raw_and_exp": lambda: Matrix(lambda m: torch.exp(-m.w), raw=True),
    "raw_and_square": lambda: Matrix(lambda m: m.w ** 2, raw=True),
    "raw_and_product": lambda: Matrix(lambda m: m.w @ m.w.t(), raw=True),
    "raw_and_detached": lambda: Matrix(lambda m: m.w.detach(), raw=True),
    "weight_norm": lambda: torch.nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "weight_norm_parametrized": lambda: parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "spectral_norm": lambda: torch.nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "tied": Tied,
    "graph": Graph,
    "scale": lambda: Vector(lambda v, x: x * v),
    "shift": lambda: Vector(lambda v, x: x + v),
    "subtracted": lambda: Vector(lambda v, x: v - x),
    "rows": lambda: Vector(lambda v, x: x * v[0] + v[1], (2, WIDTH)),
    "rows_and_whole": lambda: Vector(lambda v, x: x * v[0] + v.sum(0) * torch.tanh(x @ v.t() @ v), (2, WIDTH), 0.2, 0.1),
    "views": lambda: Vector(lambda v, x: x * v[:] + v.contiguous()),
    "halves": lambda: Vector(lambda v, x: torch.cat([x[:, :2] * v[:, :2], x[:, 2:] * v[:, 2:]], 1), (1, WIDTH)),
    "rezero": lambda: Vector(lambda v, x: x + v * torch.tanh(x), (1,)),
    "temperature": lambda: Vector(lambda v, x: x / v, (), 0.1, 2.0),
    "exponent": lambda: Vector(lambda v, x: x.abs().clamp(min=1e-2) ** v, (1,), 0.1, 1.5),
    "exponent_and_root": lambda: Vector(lambda v, x: (x.abs().clamp(min=1e-2) ** v + 1) ** (1 / v), (1,), 0.1, 1.5),
    "threshold": lambda: Vector(lambda v, x: x.sign() * F.relu(x.abs() - v), (1,), 0.01, 0.1),
    "logit_scale": lambda: Vector(lambda v, x: x * v.exp(), (), 0.1, 0.1),
    "gate": lambda: Vector(lambda v, x: v.sigmoid() * x + (1 - v.sigmoid()) * x.sin(), ()),
    "single_shift": lambda: Vector(lambda v, x: x + v, ()),
    "rate": lambda: Vector(lambda v, x: x * torch.exp(-F.softplus(v))),
    "numbers": lambda: Constant(lambda m, x: x * 0.7 + 0.2),
    "grid": lambda: Constant(lambda m, x: torch.linspace(-1, 1, WIDTH)),
    "waves": lambda: Constant(lambda m, x: waves(x).to(x.dtype)),
    "frequencies": lambda: Constant(lambda m, x: frequencies(x)),
    "slopes": lambda: Constant(lambda m, x: slopes(x)),
    "buffer_added": lambda: Constant(lambda m, x: m.table, torch.randn(WIDTH)),
    "buffer_as_weight": lambda: Constant(lambda m, x: F.linear(x, m.table), torch.randn(WIDTH, WIDTH)),
    "buffer_computed": lambda: Constant(lambda m, x: x @ F.normalize(m.table, dim=1), torch.randn(WIDTH, WIDTH)),
}


class Chain(nn.Module):
    """Parts one after another, kept small by a tanh behind each."""

    def __init__(self, names):
        super().__init__()
        self.parts = nn.ModuleList(PARTS[name]() for name in names)
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for part in self.parts:
            x = torch.tanh(part(x)) + 0.1 * x
        return self.head(x)
