"""The models of the folders beside this file, for tools/make-check-folder.

Weights are random, no two parameters are equal and no bias is zero, so that a mix-up shows.
"""
import torch
from torch import nn
from torch._higher_order_ops.scan import scan

SAMPLES = 8


def randomized(module, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        fan_in = parameter[0].numel()
        spread, centre = (fan_in**-0.5, 0.0) if parameter.dim() > 1 else (0.25, 0.5)
        parameter.data = centre + spread * torch.randn(parameter.shape, generator=generator)
    return module, generator


def small_mlp():
    module, generator = randomized(
        nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 7)), 1)
    return {
        "what": "four linear layers, ReLU, Tanh, GELU; cross entropy that ignores three of the samples",
        "module": module,
        "inputs": {"x": torch.randn(SAMPLES, 12, generator=generator)},
        "outputs": ["logits"],
        "labels": {"y": torch.tensor([3, -100, 6, 0, -100, -100, 1, 5])},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y", "class_axis": -1, "ignore_index": -100}],
    }


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        length, width = x.shape[1], x.shape[2]
        q, k, v = self.mix(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, width // self.heads)).transpose(1, 2) for part in (q, k, v))
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2)) * 0.25
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class MiniGpt(nn.Module):
    """The token embedding is the output projection too: with more than one stage, it is shared by the first and the last."""

    def __init__(self, vocabulary=23, length=6, width=16, heads=2, layers=2):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.token(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        # From the left: an exporter would fold a transposed table of this size into a second initializer.
        return (self.token.weight @ self.norm(x).transpose(1, 2)).transpose(1, 2)


def small_gpt():
    module, generator = randomized(MiniGpt(), 2)
    targets = torch.randint(23, (SAMPLES, 6), generator=generator)
    # Sample i has labels at its first i positions only: the first has none, and micro-batches weigh differently.
    for sample in range(SAMPLES):
        targets[sample, min(sample, 6):] = -100
    return {
        "what": "two-layer GPT with tied embedding; samples have from none to all of their labels",
        "module": module,
        "inputs": {"tokens": torch.randint(23, (SAMPLES, 6), generator=generator)},
        "outputs": ["logits"],
        "labels": {"targets": targets},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "targets", "class_axis": -1, "ignore_index": -100}],
    }


class SkipConv(nn.Module):
    """A long skip from the first convolution to the last, as in a U-Net."""

    def __init__(self):
        super().__init__()
        self.first, self.wide = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 10, 3, padding=1)
        self.middle, self.narrow = nn.Conv2d(10, 10, 3, padding=1), nn.Conv2d(10, 6, 1)
        self.last, self.head = nn.Conv2d(12, 8, 3, stride=2, padding=1), nn.Linear(8, 5)

    def forward(self, image):
        first = torch.relu(self.first(image))
        middle = torch.relu(self.wide(first))
        middle = middle + torch.tanh(self.middle(middle))
        last = torch.cat([first, self.narrow(middle)], dim=1)
        last = nn.functional.max_pool2d(torch.relu(self.last(last)), 2)
        return self.head(last.mean(dim=(2, 3)))


def small_conv():
    module, generator = randomized(SkipConv(), 3)
    return {
        "what": "convolutions with a long skip, a residual, pooling",
        "module": module,
        "inputs": {"image": torch.randn(SAMPLES, 2, 8, 8, generator=generator)},
        "outputs": ["logits"],
        "labels": {"y": torch.randint(5, (SAMPLES,), generator=generator)},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y", "class_axis": -1}],
    }


class TwoHeads(nn.Module):
    """Both inputs and both outputs live on different stages once it is cut."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.join = nn.Linear(6, 20), nn.Linear(4, 20), nn.Linear(40, 20)
        self.coarse, self.deep, self.fine = nn.Linear(20, 3), nn.Linear(20, 20), nn.Linear(20, 2)

    def forward(self, left, right):
        joined = torch.tanh(self.join(torch.cat([torch.tanh(self.left(left)), torch.sigmoid(self.right(right))], dim=-1)))
        return self.coarse(joined), self.fine(torch.tanh(self.deep(joined)) + joined)


def small_regression():
    module, generator = randomized(TwoHeads(), 4)
    return {
        "what": "two inputs, two outputs, a weighted sum of two mean squared errors",
        "module": module,
        "inputs": {"left": torch.randn(SAMPLES, 6, generator=generator), "right": torch.randn(SAMPLES, 4, generator=generator)},
        "outputs": ["coarse", "fine"],
        "labels": {"c": torch.randn(SAMPLES, 3, generator=generator), "f": torch.randn(SAMPLES, 2, generator=generator)},
        "loss": [{"kind": "mse", "output": "coarse", "labels": "c", "weight": 0.5},
                 {"kind": "mse", "output": "fine", "labels": "f", "weight": 2.0}],
    }


class Recurrent(nn.Module):
    """Samples of their own lengths in both directions, then layers over all steps, one of which begins where another ended."""

    def __init__(self):
        super().__init__()
        self.both = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.gated, self.plain = nn.GRU(10, 6, batch_first=True), nn.RNN(6, 6, batch_first=True, nonlinearity="relu")
        self.each, self.whole = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y, (hidden, cell) = self.both(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        y, last = self.gated(y)
        y, _ = self.plain(y, last)
        return self.each(y), self.whole(hidden[1] + cell[0])


def small_recurrent():
    module, generator = randomized(Recurrent(), 5)
    return {
        "what": "a bidirectional LSTM over packed sequences, a GRU, an RNN that begins with its last state",
        "module": module,
        "inputs": {"x": torch.randn(SAMPLES, 6, 4, generator=generator), "lengths": torch.tensor([6, 6, 5, 4, 4, 2, 1, 1])},
        "outputs": ["tags", "class"],
        "fold": False,  # else gates would be turned around in the file
        "labels": {"t": torch.randint(5, (SAMPLES, 6), generator=generator), "c": torch.randn(SAMPLES, 3, generator=generator)},
        "loss": [{"kind": "cross_entropy", "output": "tags", "labels": "t"},
                 {"kind": "mse", "output": "class", "labels": "c", "weight": 0.5}],
    }


class ManyHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.deep = nn.Linear(6, 16), nn.Linear(16, 16)
        self.classes, self.soft, self.bits = nn.Linear(16, 5), nn.Linear(16, 4), nn.Linear(16, 3)
        self.near, self.far, self.size = nn.Linear(16, 2), nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, x):
        h = torch.tanh(self.deep(torch.tanh(self.body(x))))
        first, last = h.unflatten(-1, (2, 8)).unbind(1)
        places = torch.stack([h, torch.cat([last, first], dim=-1)], dim=1)
        return self.classes(places), self.soft(h), self.bits(h), self.near(h), self.far(h), self.size(h)


def small_losses():
    module, generator = randomized(ManyHeads(), 5)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    # Labels that count are spread unevenly: the first four samples have none.
    places = torch.randint(5, (SAMPLES, 2), generator=generator)
    places[:4], places[6, 0] = -1, -1
    grid = torch.randint(-2, 3, (SAMPLES, 2), generator=generator).float()
    return {
        "what": "every loss of --loss at once; labels with weights and smoothing, four samples without any",
        "module": module,
        "inputs": {"x": draw(SAMPLES, 6)},
        "outputs": ["classes", "soft", "bits", "near", "far", "size"],
        "labels": {
            "places": places,
            "shares": torch.softmax(draw(SAMPLES, 4), dim=-1),
            "marks": torch.randint(2, (SAMPLES, 3), generator=generator).float(),
            "a": grid, "b": grid + 1, "c": draw(SAMPLES, 2),
        },
        "loss": [
            {"kind": "cross_entropy", "output": "classes", "labels": "places", "ignore_index": -1, "label_smoothing": 0.1,
             "class_weights": [0.5, 1.0, 2.0, 0.25, 1.5]},
            {"kind": "soft_cross_entropy", "output": "soft", "labels": "shares", "label_smoothing": 0.25,
             "class_weights": [1.0, 0.5, 2.0, 0.75], "weight": 0.5},
            {"kind": "bce_with_logits", "output": "bits", "labels": "marks", "pos_weight": [3.0, 0.5, 1.0]},
            {"kind": "smooth_l1", "output": "near", "labels": "a", "beta": 0.5, "reduction": "samples"},
            {"kind": "huber", "output": "far", "labels": "b", "delta": 0.75, "weight": 2.0},
            {"kind": "l1", "output": "size", "labels": "c", "reduction": "sum", "weight": 0.125},
        ],
    }


class LostGradients(nn.Module):
    """What ONNX has no word for: padding rows, detached values, bounds that take no gradient."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, padding_idx=2)
        self.low, self.high, self.cut = (nn.Parameter(torch.zeros(4)) for _ in range(3))
        self.mix, self.stopped, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(16, 3)

    def forward(self, tokens, x):
        words = self.words(tokens).mean(dim=1)
        six = nn.functional.relu6(x + self.low)
        tanh = nn.functional.hardtanh(x + self.high, -1.0, 2.0)
        cut = torch.clamp(x + self.cut, 0.0, 6.0)
        mixed = self.mix(words)
        known = self.stopped(mixed.detach()) * (mixed.sigmoid().detach() + words)
        larger = torch.maximum(six, cut) * 0.5
        first = torch.stack([six, cut, tanh], dim=1).max(dim=1).values
        return self.head(torch.cat([known, tanh, larger + first, (words * cut)], dim=-1))


def small_lost_gradients():
    module, generator = randomized(LostGradients(), 6)
    # Whole numbers, so that the batch lies on bounds and on ties.
    for parameter, start in ((module.low, 1), (module.high, 0), (module.cut, 2)):
        parameter.data = torch.arange(4).float() - start
    tokens = torch.randint(7, (SAMPLES, 3), generator=generator)
    tokens[:3, 1], tokens[5] = 2, 2
    return {
        "what": "padding ids, detached values, values on the bounds of relu6, hardtanh and clamp, ties",
        "module": module,
        "inputs": {"tokens": tokens, "x": torch.randint(-3, 8, (SAMPLES, 4), generator=generator).float()},
        "outputs": ["logits"],
        "labels": {"y": torch.randint(3, (SAMPLES,), generator=generator)},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}],
    }


class Exported(nn.Module):
    """What torch.export keeps and ONNX does not, or writes otherwise."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 12, padding_idx=3)
        self.frozen = nn.Linear(12, 12)
        self.steps = nn.LSTM(12, 12, batch_first=True)
        self.norm = nn.BatchNorm1d(12)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("gate", torch.tensor(0.75))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 12), persistent=False)
        self.places = torch.arange(10.0)  # a number of the code, no state
        self.out = nn.Linear(12, 20)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens) + self.places[:, None] * 0.125
        with torch.no_grad():
            known = torch.sigmoid(self.frozen(x))
            first, second = known.chunk(2, -1)
        x = x * torch.cat([second, first], -1)
        x, _ = self.steps(x)
        x = x.clone()
        x[:, :2] *= self.scale
        x[:, -1, 0] = 0.5
        x = torch.cond(self.gate > 0, lambda each: each * self.gate, lambda each: each - 1, (x,))
        x = self.drop(nn.functional.gelu(x.mean(1) + x[:, 3]))
        x = self.norm(x)
        shape = x.shape[0], 2, -1
        return {"logits": self.out(x), "parts": tuple(x.view(shape).unbind(1))}


def small_exported():
    module, generator = randomized(Exported(), 8)
    module.out.weight = module.table.weight
    module.norm.running_mean.copy_(torch.randn(12, generator=generator))
    module.norm.running_var.copy_(torch.rand(12, generator=generator) + 0.5)
    tokens = torch.randint(20, (SAMPLES, 10), generator=generator)
    tokens[2, 4:] = 3
    return {
        "what": "what torch.export keeps: no_grad, a branch, writes in place, ties, padding, a dictionary",
        "module": module,
        "inputs": {"tokens": tokens},
        "outputs": ["logits", "parts_0", "parts_1"],
        "labels": {"y": torch.randint(20, (SAMPLES,), generator=generator), "a": torch.randn(SAMPLES, 6, generator=generator)},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}, {"kind": "mse", "output": "parts_1", "labels": "a", "weight": 0.5}],
    }


class Regions(nn.Module):
    """Loops of torch.export over known trips, complex numbers, and writes through slices with steps."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 12)
        self.step, self.again, self.out = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 9)
        angles = torch.outer(torch.arange(6.0), 0.5 ** torch.arange(6.0))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def rotate(self, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turned = pairs * self.turns.to(pairs.dtype) + pairs.conj() * 0.25
        return torch.view_as_real(turned.transpose(1, 2).roll(1, 1).transpose(1, 2)).flatten(2) + turned.abs().repeat(1, 1, 2)

    def scan(self, x):
        def trip(state, row):
            state = torch.tanh(self.step(state) + row)
            return state, state * 2

        if torch.compiler.is_exporting():
            return scan(trip, torch.zeros_like(x[:, 0]), x, dim=1)
        state, rows = torch.zeros_like(x[:, 0]), []
        for i in range(x.shape[1]):
            state, row = trip(state, x[:, i])
            rows.append(row)
        return state, torch.stack(rows)

    def repeat(self, x):
        if torch.compiler.is_exporting():
            return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.tanh(self.again(x))), (torch.tensor(0), x))[1]
        for _ in range(3):
            x = torch.tanh(self.again(x))
        return x

    def forward(self, tokens):
        x = self.rotate(self.table(tokens))
        mixed = x.clone()
        mixed[..., 1:14:3] = x[..., :4] * 2
        mixed[:, ::4, 2::5].mul_(x[:, ::4, 3::5])
        state, rows = self.scan(mixed)
        return self.out(self.repeat(state + rows.mean(0)))


def small_regions():
    module, generator = randomized(Regions(), 9)
    return {
        "what": "torch.export: scan and while_loop of known trips, complex numbers, writes through slices with steps",
        "module": module,
        "inputs": {"tokens": torch.randint(17, (SAMPLES, 6), generator=generator)},
        "outputs": ["logits"],
        "labels": {"y": torch.randint(9, (SAMPLES,), generator=generator)},
        "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y"}],
    }
