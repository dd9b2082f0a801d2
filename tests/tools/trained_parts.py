"""Small modules, each of which reads its parameters, buffers and constants in a way that exporters write in a way of their own.

Each takes and gives [samples, WIDTH] numbers. The test beside it puts them together at random."""
import linecache
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

WIDTH = 6


def parameter(*shape, scale=0.5, shift=0.0):
    return nn.Parameter(shift + scale * torch.randn(shape))


def written(body):
    """A module whose forward gives the expression. Its source can be read, as TorchScript's compiler does."""
    source = f"class Part(nn.Module):\n    def forward(self, x):\n        return {body}\n"
    name = f"<{body}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    made = {**globals()}
    exec(compile(source, name, "exec"), made)
    return made["Part"]()


def matrix(of="self.w", raw=False, buffer=False):
    """A linear map whose weight is computed from one matrix; `raw`: the plain one is added."""
    module = written(f"F.linear(x, {of})" + (" + F.linear(x, self.w)" if raw else ""))
    module.w = parameter(WIDTH, WIDTH)
    if buffer:
        module.register_buffer("mask", torch.bernoulli(torch.full((WIDTH, WIDTH), 0.6)))
    return module


def vector(of, shape=(WIDTH,), scale=0.5, shift=1.0):
    """What an expression makes of a vector and the data."""
    module = written(of)
    module.v = parameter(*shape, scale=scale, shift=shift)
    return module


def constant(of, buffer=None):
    """A linear module and a table that no parameter is behind."""
    module = written(f"self.fc(x) + {of}")
    module.fc = nn.Linear(WIDTH, WIDTH)
    if buffer is not None:
        module.register_buffer("table", buffer)
    return module


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


STANDARDISED = "(self.w - self.w.mean(1, keepdim=True)) / torch.sqrt(self.w.var(1, keepdim=True, unbiased=False) + 1e-5)"


def waves(x, width: int = WIDTH):
    rate = torch.exp(torch.arange(width // 2, dtype=torch.float32) * -0.7)
    angle = torch.arange(1, 3, dtype=torch.float32)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1).sum(0).to(x.dtype)


def frequencies(x, width: int = WIDTH):
    rate = torch.exp(-math.log(100.0) * torch.arange(width, dtype=torch.float32) / width)
    return torch.sin(x[:, :1] * rate)


def slopes(x, width: int = WIDTH):
    distance = torch.arange(width, dtype=torch.float32)[None] - torch.arange(width, dtype=torch.float32)[:, None]
    scores = x[:, :, None] * x[:, None, :] + 0.25 * distance
    return (scores.softmax(-1) @ x[:, :, None])[..., 0]


# By name, what makes a part. `raw` ones read a parameter as it is, too.
PARTS = {
    "plain": lambda: matrix(),
    "turned": lambda: matrix("self.w.t()"),
    "raw_and_turned": lambda: matrix("self.w.t()", raw=True),
    "standardised": lambda: matrix(STANDARDISED),
    "raw_and_standardised": lambda: matrix(STANDARDISED, raw=True),
    "normalised": lambda: matrix("F.normalize(self.w, dim=-1)"),
    "raw_and_normalised": lambda: matrix("F.normalize(self.w, dim=-1)", raw=True),
    "raw_and_normalised_columns": lambda: matrix("F.normalize(self.w, dim=0)", raw=True),
    "raw_and_abs": lambda: matrix("self.w.abs()", raw=True),
    "raw_and_softmax": lambda: matrix("self.w.softmax(-1)", raw=True),
    "raw_and_scaled": lambda: matrix("self.w * 0.3 - 0.1", raw=True),
    "raw_and_symmetric": lambda: matrix("(self.w + self.w.t()) * 0.5", raw=True),
    "raw_and_masked": lambda: matrix("self.w * self.mask", raw=True, buffer=True),
    "raw_and_tril": lambda: matrix("torch.tril(self.w)", raw=True),
    "raw_and_rows": lambda: matrix("torch.cat([self.w[:2], self.w[2:]])", raw=True),
    "raw_and_exp": lambda: matrix("torch.exp(-self.w)", raw=True),
    "raw_and_square": lambda: matrix("self.w ** 2", raw=True),
    "raw_and_product": lambda: matrix("self.w @ self.w.t()", raw=True),
    "raw_and_detached": lambda: matrix("self.w.detach()", raw=True),
    "weight_norm": lambda: torch.nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "weight_norm_parametrized": lambda: parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "spectral_norm": lambda: torch.nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "tied": Tied,
    "graph": Graph,
    "scale": lambda: vector("x * self.v"),
    "shift": lambda: vector("x + self.v"),
    "subtracted": lambda: vector("self.v - x"),
    "rows": lambda: vector("x * self.v[0] + self.v[1]", (2, WIDTH)),
    "rows_and_whole": lambda: vector("x * self.v[0] + self.v.sum(0) * torch.tanh(x @ self.v.t() @ self.v)", (2, WIDTH), 0.2, 0.1),
    "views": lambda: vector("x * self.v[:] + self.v.contiguous()"),
    "halves": lambda: vector("torch.cat([x[:, :2] * self.v[:, :2], x[:, 2:] * self.v[:, 2:]], 1)", (1, WIDTH)),
    "rezero": lambda: vector("x + self.v * torch.tanh(x)", (1,)),
    "temperature": lambda: vector("x / self.v", (), 0.1, 2.0),
    "exponent": lambda: vector("x.abs().clamp(min=1e-2) ** self.v", (1,), 0.1, 1.5),
    "exponent_and_root": lambda: vector("(x.abs().clamp(min=1e-2) ** self.v + 1) ** (1 / self.v)", (1,), 0.1, 1.5),
    "threshold": lambda: vector("x.sign() * F.relu(x.abs() - self.v)", (1,), 0.01, 0.1),
    "logit_scale": lambda: vector("x * self.v.exp()", (), 0.1, 0.1),
    "gate": lambda: vector("self.v.sigmoid() * x + (1 - self.v.sigmoid()) * x.sin()", ()),
    "single_shift": lambda: vector("x + self.v", ()),
    "rate": lambda: vector("x * torch.exp(-F.softplus(self.v))"),
    "numbers": lambda: constant("x * 0.7 + 0.2"),
    "grid": lambda: constant("torch.linspace(-1, 1, 6)"),
    "waves": lambda: constant("waves(x)"),
    "frequencies": lambda: constant("frequencies(x)"),
    "slopes": lambda: constant("slopes(x)"),
    "buffer_added": lambda: constant("self.table", torch.randn(WIDTH)),
    "buffer_as_weight": lambda: constant("F.linear(x, self.table)", torch.randn(WIDTH, WIDTH)),
    "buffer_computed": lambda: constant("x @ F.normalize(self.table, dim=1)", torch.randn(WIDTH, WIDTH)),
}

# TorchScript's compiler cannot read what makes their weights.
HOOKED = ["weight_norm", "weight_norm_parametrized", "spectral_norm"]


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
