"""Modules and losses that keep something from one step for the next: each trains with the numbers of PyTorch, or is an error or a
warning that names what it keeps. Skipped without PyTorch."""
import collections
import dataclasses
import enum
import functools
import re
import tempfile
import threading
import tracemalloc
import types
import unittest
import unittest.mock
import warnings
import weakref

import programs
from python_wrong_uses_test import X, Y, data, loss, sgd, trainer

import rannc
import torch
from torch import nn


class Forward(nn.Module):
    """A linear layer within a function of the test, with attributes and buffers for it."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(4, 3), function
        self.calls, self.average, self.last, self.notes, self.log = 0, torch.zeros(3), None, {}, []
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        return self.function(self, x)


def train(net, steps=2, loss=loss, **options):
    with trainer(net, **{"loss": loss, **options}) as opened:
        return [opened.step(data(seed=number)).item() for number in range(steps)]


def losses_of_torch(net, steps=2, loss=loss):
    optimizer, losses = sgd(net), []
    for number in range(steps):
        optimizer.zero_grad()
        batch = data(seed=number)
        value = loss(net(batch[0]), batch)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


class Case(unittest.TestCase):
    def assert_equal(self, found, wanted):
        for one, other in zip(found, wanted, strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def assert_refused(self, use, *words):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaises(rannc.Error) as caught:
                use()
        for word in ("python_state_test.py:", *words):
            self.assertIn(word, str(caught.exception))


# Attributes that one call leaves for the next.
def counted(net, x):
    net.calls += 1
    return net.layer(x) * net.calls


def toggled(net, x):
    net.notes["on"] = not net.notes.get("on", False)
    return net.layer(x).relu() if net.notes["on"] else net.layer(x)


def listed(net, x):
    net.log.append(1)
    return net.layer(x) * len(net.log)


def averaged(net, x):
    h = net.layer(x)
    net.average = 0.9 * net.average + 0.1 * h.detach().mean(0)
    return h - net.average


def made_once(net, x):
    h = net.layer(x)
    if not hasattr(net, "first"):
        net.first = h.detach().mean(0)
    return h - net.first


def of_the_call_before(net, x):
    h = net.layer(x) if net.last is None else net.layer(x) + net.last
    net.last = h.detach().mean(0)
    return h


def masked(net, x):
    if net.last is None:
        net.last = torch.rand(3).round()
    return net.layer(x) * net.last


def averaged_in_part(net, x):
    h = net.layer(x).clone()
    h[:, 0] -= net.average[0]
    net.average = 0.9 * net.average + 0.1 * h.detach().mean(0)
    return h


def counted_in_part(net, x):
    h = net.layer(x).clone()
    net.calls += 1
    h[:, 0] *= net.calls
    return h


def masked_without_gradient(net, x):
    with torch.no_grad():
        if net.last is None:
            net.last = torch.rand(3).round()
    return net.layer(x) * net.last


def of_a_buffer_at_first(net, x):
    h = net.layer(x)
    center = net.mean if net.last is None else net.last
    net.last = h.detach().mean(0)
    return h - center


def of_another_buffer(net, x):
    """Reads a buffer that is written, and later what is not in it."""
    net.mean.add_(1)
    return of_a_buffer_at_first(net, x)


def counted_in_a_branch(net, x):
    net.calls += 1
    factor = float(net.calls)
    with torch.no_grad():
        scale = torch.cond(x.sum() > 0, lambda h: h * factor, lambda h: h + 0, (x[:, :3],))
    return net.layer(x) * scale


class Annealed:
    """A loss that is a method, with a factor of its number of calls."""

    def __init__(self):
        self.steps = 0

    def of(self, outputs, batch):
        self.steps += 1
        return loss(outputs, batch) * 0.5 ** self.steps


class Named:
    """Losses that are methods of a class."""
    of_class = classmethod(lambda cls, outputs, batch: loss(outputs, batch))
    of_none = staticmethod(loss)


annealed = 0


def annealed_loss(outputs, batch):
    global annealed
    annealed += 1
    return loss(outputs, batch) * 0.5 ** annealed


def annealed_in_closure():
    steps, notes = 0, {"scale": 1.0}

    def of(outputs, batch):
        nonlocal steps
        steps += 1
        notes["scale"] *= 0.5
        return loss(outputs, batch) * notes["scale"] / steps
    return of


def inspected(net, x):
    h = net.layer(x)
    net.last, net.made = h.softmax(-1), h
    net.log.append(h.mean())
    net.notes["mean"] = h.detach().mean()
    with torch.no_grad():
        scale = h.abs().amax(1, keepdim=True) + 1
    return (h + 0 * net.made) / scale * scale


def converted(net, x):
    """Converts an input and a parameter to the types that they have."""
    net.last = x
    return nn.functional.linear(x.to(torch.float32), net.layer.weight.to(x.dtype).contiguous(), net.layer.bias.to(x))


def cached(net, x):
    """Keeps a table that depends on sizes alone."""
    if net.last is None or net.calls < x.shape[1]:
        net.calls, net.last = x.shape[1], torch.arange(3.0) * x.shape[1]
    return net.layer(x) * net.last


def of_samples(function):
    """The function, of samples one by one, whose number is a constant of the program."""
    return lambda net, x: function(net, torch.stack([each * 1 for each in x]))


def first_is_larger(net, x):
    h = net.layer(x)
    net.calls += 1
    return h * 10 if net.calls == 1 else h


class Centered(nn.Module):
    """A loss that keeps the mean of outputs in a buffer, as of self-distillation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(3))

    def forward(self, outputs, batch):
        value = loss(outputs - self.center, batch)
        self.center = 0.9 * self.center + 0.1 * outputs.detach().mean(0)
        return value


class Rotary(nn.Module):
    """Makes its tables at the first call, and for longer sequences."""

    def __init__(self):
        super().__init__()
        self.register_buffer("inverse", torch.rand(3), persistent=False)
        self.cos, self.longest = None, 0

    @torch.no_grad()
    def forward(self, size):
        if self.cos is None or size > self.longest:
            angles = torch.outer(torch.arange(size).float(), self.inverse)
            self.longest, self.cos, self.sin = size, angles.cos(), angles.sin()
        return self.cos[:size], self.sin[:size]


def rotated(net, x):
    cos, sin = net.inner(x.shape[1])
    return net.layer(x) * cos[1] + net.layer(x) * sin[1]


def masked_by_position(net, x):
    """Makes a mask of the type, device and sizes of other tensors, whose numbers it does not have."""
    h = net.layer(x)
    if net.last is None:
        net.last = h.new_full((3, 3), -1.0).triu(1) + torch.ones_like(net.layer.weight[:, :3], dtype=torch.bool).tril()
    return h @ net.last


def masked_at_random(net, x):
    h = net.layer(x)
    if net.last is None:
        net.last = torch.rand_like(h[0]).round()
    return h * net.last


def filled(net, x):
    h = net.layer(x)
    if net.last is None:
        net.last = torch.zeros_like(h[0]).add_(h.mean().detach())
    return h * net.last


def with_branch(net, x):
    net.last = x
    with torch.no_grad():
        scale = torch.cond(x.sum() > 0, lambda h: h * 2, lambda h: h + 1, (x[:, :3],))
    return net.layer(x) * scale


def registered_once(net, h):
    """Registers a buffer that depends on the first batch."""
    if not hasattr(net, "first"):
        net.register_buffer("first", h.detach().mean(0))
    return h - net.first


def table_registered_once(net, h):
    if not hasattr(net, "table"):
        net.register_buffer("table", torch.arange(3.0), persistent=False)
    return h * net.table


@dataclasses.dataclass(frozen=True)
class Settings:
    """Has a table that is made by the first call."""
    size: int

    @functools.cached_property
    def table(self):
        return torch.arange(float(self.size))


def of_settings(net, x):
    return net.layer(x) * net.settings.table


class Factor:
    """An object that is called, with a factor of its number of calls."""
    of_class = 1.0

    def __init__(self):
        self.value = 1.0

    def __call__(self):
        self.value *= 0.5
        return self.value

    @classmethod
    def next(cls):
        cls.of_class *= 0.5
        return cls.of_class


class Scaled(nn.Module):
    """Has a counter of its class, and of its file."""
    of_class = 0

    def __init__(self, function=None):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(4, 3), function

    def forward(self, x):
        return self.function(self.layer(x)) if self.function else self.layer(x) * 0.5 ** self.counted()

    def counted(self):
        Scaled.of_class += 1
        return Scaled.of_class


class ScaledByGlobal(Scaled):
    def counted(self):
        global annealed
        annealed += 1
        return annealed


def by_item(net, x):
    return net.notes["inner"][0](net.layer(x))


def with_inner_in_a_list():
    net = Forward(by_item)
    net.notes["inner"] = [Scaled(lambda h: h)]
    net.notes["inner"][0].layer = nn.Identity()
    net.notes["inner"][0].function = None
    return net


def wrapped(function):
    @functools.wraps(function)
    def of(outputs, batch):
        return function(outputs, batch)
    return of


def of_factor(factor):
    return lambda outputs, batch: loss(outputs, batch) * factor()


def of_default(outputs, batch, calls=[0]):
    calls[0] += 1
    return loss(outputs, batch) * 0.5 ** calls[0]


def of_function(outputs, batch):
    of_function.calls = getattr(of_function, "calls", 0) + 1
    return loss(outputs, batch) * 0.5 ** of_function.calls


@functools.lru_cache
def table(size):
    return torch.arange(float(size))


def of_table(net, x):
    net.calls += 1
    return net.layer(x) * table(3)


class Registry(collections.OrderedDict):
    """Makes what it returns, as tables of layers by name do."""

    def __getitem__(self, name):
        return super().__getitem__(name)(1.0)

    def items(self):
        return [(name, self[name]) for name in self]


registry = Registry(of_no_argument=lambda: None, scale=lambda factor: factor)


def of_registry(net, x):
    registry["calls"] = net.calls
    return net.layer(x) * registry["scale"]


class Closed(type):
    """A class whose attributes cannot be set, and that has no hash."""
    def __eq__(cls, other):
        return cls is other

    def __setattr__(cls, name, value):
        raise AttributeError(name)


class OfClosed(metaclass=Closed):
    size = 3


class Raising(dict):
    """Has no items for others."""
    def __iter__(self):
        raise RuntimeError("no iteration")

    keys = items = values = __len__ = __iter__


class Kind(enum.Enum):
    ONE = 1


class Task:
    """A loss beside its data, with a counter."""

    def __init__(self):
        self.data = [list(range(100 * start, 100 * start + 100)) for start in range(1000)]
        self.notes = {"calls": [0]}

    def of(self, outputs, batch):
        self.notes["calls"][0] += 1
        return loss(outputs, batch) * 0.5 ** self.notes["calls"][0]


class Attributes(Case):
    def test_those_that_the_next_call_reads_are_refused(self):
        for attribute, function in (("calls", counted), ("notes['on']", toggled), ("log[0]", listed), ("average", averaged),
                                    ("first", made_once), ("last", of_the_call_before), ("last", masked),
                                    ("average", averaged_in_part), ("calls", counted_in_part),
                                    ("last", masked_without_gradient), ("last", of_a_buffer_at_first),
                                    ("last", of_another_buffer), ("calls", counted_in_a_branch),
                                    ("last", masked_at_random), ("last", filled)):
            with self.subTest(function.__name__):
                self.assert_refused(lambda function=function: train(Forward(function)), f"{attribute}: forward or loss changes",
                                    "which the next call reads", "batch_axis=")

    def test_variables_and_attributes_of_losses(self):
        for value, name in ((Annealed().of, "loss.steps"), (annealed_loss, "loss.annealed"), (annealed_in_closure(), "loss.notes['scale']")):
            self.assert_refused(lambda value=value: train(plain(), loss=value), f"{name}", "became", "which the next call reads")
        self.assertEqual(annealed, 0)

    def test_objects_classes_and_functions_that_a_call_reaches(self):
        net_of_factor = lambda: Forward(lambda net, x: net.layer(x) * net.notes["factor"]())
        net = net_of_factor()
        net.notes["factor"] = Factor()
        for make, value, place in (
                (plain, of_factor(Factor()), "loss.factor.value"), (plain, of_factor(Factor.next), "Factor.of_class"),
                (plain, wrapped(annealed_loss), "loss.function.annealed"),
                (plain, functools.partial(annealed_loss), "loss.func.annealed"),
                (plain, lambda outputs, batch: annealed_loss(outputs, batch), "loss.annealed_loss.annealed"),
                (plain, of_default, "loss.__defaults__[0][0]"), (plain, of_function, "loss.__dict__['calls']"),
                (plain, Task().of, "loss.notes['calls'][0]"),
                (lambda: net, loss, "notes['factor'].value"), (Scaled, loss, "Scaled.of_class"),
                (ScaledByGlobal, loss, "ScaledByGlobal.counted.annealed"), (with_inner_in_a_list, loss, "Scaled.of_class")):
            with self.subTest(place):
                self.assert_refused(lambda make=make, value=value: train(make(), loss=value), f"{place}: forward or loss changes",
                                    "which the next call reads")
        self.assertEqual((annealed, Scaled.of_class, Factor.of_class, of_default.__defaults__, vars(of_function)),
                         (0, 0, 1.0, ([0],), {}))

    def test_caches_of_functions(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_equal(train(Forward(of_table)), losses_of_torch(Forward(of_table)))

    def test_containers_with_methods_of_their_own(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = train(Forward(of_registry))
        self.assertEqual(list(registry), ["of_no_argument", "scale"])
        self.assert_equal(found, losses_of_torch(Forward(of_registry)))

    def test_objects_of_all_kinds_stay(self):
        net = plain()
        net.log = [threading.Lock(), unittest.mock.MagicMock(), OfClosed(), Raising(one=1), Kind.ONE, re.compile("a"), net, Kind,
                   torch.ops.aten.add.Tensor, torch.optim.SGD(net.parameters(), 0.1), torch.jit.script(nn.Linear(1, 1)),
                   weakref.WeakValueDictionary(), types.MappingProxyType({}), iter([1]), functools.partial(loss)]
        net.scripted = net.log[10]
        attributes = rannc.carried.Attributes({"": net, "scripted.": net.scripted}, net)
        before = list(net.log)
        self.assertEqual(attributes.changes(), {})
        net.log.pop()
        dict.update(net.log[3], two=2)
        self.assertEqual(list(attributes.changes()), ["log[3]['two']", "log[14]"])
        attributes.restore()
        self.assertTrue(all(one is other for one, other in zip(net.log, before, strict=True)))
        self.assertEqual(dict(dict.items(net.log[3])), {"one": 1})

    def test_data_beside_a_loss_are_not_compared(self):
        task = Task()
        tracemalloc.start()
        rannc.carried.Attributes({"loss.": task}, plain())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 5 << 20, "a data set has 100,000 numbers")

    def test_losses_that_are_methods_of_a_class(self):
        for value in (Named.of_class, Named.of_none, Named().of_class):
            self.assert_equal(train(plain(), loss=value), losses_of_torch(plain()))

    def test_buffers_of_losses(self):
        for of_loss in (lambda centered: centered, lambda centered: lambda outputs, batch: centered(outputs, batch)):
            centered = Centered()
            center = centered.center
            self.assert_refused(lambda: train(plain(), loss=of_loss(centered)), "center: forward or loss changes",
                                "which the next call reads")
            self.assertIs(centered.center, center)

    def test_buffers_that_a_call_registers(self):
        for make in (lambda function: Forward(lambda net, x: function(net, net.layer(x))), with_inner_of):
            net = make(registered_once)
            self.assert_refused(lambda: train(net), "first: forward or loss changes", "which the next call reads")
            net = make(table_registered_once)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assert_equal(train(net), losses_of_torch(make(table_registered_once)))
            self.assertEqual([name for name, _ in net.named_buffers() if "mean" not in name], [])

    def test_others_are_left_as_they_were(self):
        for function in (inspected, cached, converted, with_branch, masked_by_position):
            net = Forward(function)
            log = net.log
            with self.subTest(function.__name__), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", "evaluations do not return all outputs")  # of a branch by a sum over samples
                self.assert_equal(train(net), losses_of_torch(Forward(function)))
                self.assertIs(net.last, None)
                self.assertIs(net.log, log)
                self.assertEqual((net.calls, net.log, net.notes, hasattr(net, "made")), (0, [], {}, False))

    def test_exports_of_a_certain_number_of_samples(self):
        """Of which a first one fails."""
        for attribute, function in (("calls", first_is_larger), ("first", made_once), ("average", averaged)):
            with self.subTest(function.__name__):
                self.assert_refused(lambda function=function: train(Forward(of_samples(function))),
                                    f"{attribute}: forward or loss changes", "which the next call reads")
        net, other = [Stateful(of_samples(unread)) for _ in range(2)]
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            state = torch.get_rng_state()
            train(net, **Buffers.ONE)
        self.assertRegex("".join(str(each.message) for each in issued), r"python_state_test.py:\d+: forward or loss works for 8 samples")
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertIs(net.last, None)
        for name, tensor in net.state_dict().items():
            self.assertTrue(torch.equal(tensor, other.state_dict()[name]), name)

    def test_tables_that_a_call_makes_without_gradient(self):
        def made():
            net = Forward(rotated)
            torch.manual_seed(1)
            net.inner = Rotary()
            return net
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assert_equal(train(made()), losses_of_torch(made()))

    def test_attributes_that_a_call_adds_to_an_object(self):
        def made():
            net = Forward(of_settings)
            net.settings = Settings(3)
            return net
        net = made()
        self.assert_equal(train(net), losses_of_torch(made()))
        self.assertEqual(vars(net.settings), {"size": 3})

    def test_a_buffer_whose_data_are_replaced(self):
        def replaced(net, x):
            h = net.layer(x)
            net.mean.data = 0.9 * net.mean + 0.1 * h.detach().mean(0)
            return h - net.mean
        self.assert_refused(lambda: train(Forward(replaced)), "sets `.data`", "copy_()")
        self.assertNotIn("data", vars(torch.Tensor))


def assigned(net, x):
    h = net.layer(x)
    net.mean = 0.9 * net.mean + 0.1 * h.detach().mean(0)
    return h - net.mean


def copied(net, x):
    h = net.layer(x)
    with torch.no_grad():
        net.mean.copy_(0.9 * net.mean + 0.1 * h.mean(0))
    return h - net.mean


def normalized_by_hand(net, x):
    h = net.layer(x)
    with torch.no_grad():
        net.running_mean.mul_(0.9).add_(0.1 * h.mean(0))
    return h - net.running_mean


def counter(net, x):
    net.steps += 1
    return net.layer(x) * (1 + 0.1 * net.steps)


def counter_read_before(net, x):
    h = net.layer(x) * (1 + 0.1 * net.steps)
    net.steps += 1
    return h


def begun(net, x):
    h = net.layer(x)
    first = torch.where(net.known, net.mean, h.detach().mean(0))
    net.known.fill_(True)
    return h - first


def quantized(net, x):
    h = net.layer(x)
    index = (h.detach()[:, None] - net.codes).square().sum(-1).argmin(1)
    picked = nn.functional.embedding(index, net.codes)
    with torch.no_grad():
        net.codes.mul_(0.9).add_(0.1 * h.mean(0))
    return h + (picked - h).detach()


def history(net, x):
    h = net.layer(x)
    net.codes = torch.cat([net.codes[1:], h.detach().mean(0, keepdim=True)])
    return h + net.codes.mean(0)


def of_updated_statistics(net, x):
    return net.norm(net.layer(x)) + net.norm.running_mean


def of_statistics_before(net, x):
    before = net.norm.running_mean.clone()
    return net.norm(net.layer(x)) + before


def average_of_weights(net, x):
    net.weights.mul_(0.9).add_(net.layer.weight.detach(), alpha=0.1)
    return net.layer(x)


def unread_counter(net, x):
    net.steps += 1
    return net.layer(x)


def shared_statistics(net, x):
    return net.norm(net.norm(net.layer(x)))


def written_before_read(net, x):
    net.mean.copy_(x.detach().mean(0)[:3])
    return net.layer(x) + net.mean


def unread(net, x):
    """Changes an attribute and buffers, which nothing reads."""
    h = net.norm(net.layer(x)) + 0 * torch.rand(())
    net.steps += 1
    net.mean = h.detach().mean(0)
    net.last = h.detach()
    return h


class Stateful(Forward):
    """With buffers of all kinds."""

    def __init__(self, function):
        super().__init__(function)
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("known", torch.tensor(False))
        self.register_buffer("codes", torch.randn(5, 3), persistent=False)
        self.register_buffer("weights", self.layer.weight.detach().clone())
        self.norm = nn.BatchNorm1d(3)


class Inner(nn.Module):
    """Assigns its buffers, within another module."""

    def __init__(self, reads):
        super().__init__()
        self.reads = reads
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, h):
        self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        return h - self.mean if self.reads else h


def by_inner(net, x):
    return net.inner(net.layer(x))


def with_inner(reads):
    net = Forward(by_inner)
    net.inner = Inner(reads)
    return net


def with_inner_of(function):
    net = Forward(by_inner)
    net.inner = Inner(False)
    net.inner.forward = lambda h: function(net.inner, h)
    return net


def spectral(net, x):
    return net.layer(x)


class Buffers(Case):
    """Buffers that forward writes, with one micro-batch, of which batch normalization has the statistics of PyTorch."""
    ONE = dict(cluster="local:1", stages=1, micro_batches=1)

    def test_those_that_the_next_step_reads_are_refused(self):
        for function, *words in ((assigned, "writes into 'mean'"), (copied, "writes into 'mean'"),
                                 (normalized_by_hand, "writes into 'running_mean'"), (counter, "writes into 'steps'"),
                                 (counter_read_before, "writes into 'steps'"), (begun, "writes into 'known'"),
                                 (quantized, "writes into 'codes'"), (history, "writes into 'codes'")):
            with self.subTest(function.__name__):
                self.assert_refused(lambda function=function: train(Stateful(function), **self.ONE), *words,
                                    "'loss' depends on what the step before left", "input without a batch axis")
        self.assert_refused(lambda: train(with_inner(True), **self.ONE), "inner.mean: forward or loss changes this buffer",
                            "which the next call reads")
        self.assert_refused(lambda: train(Stateful(of_updated_statistics), **self.ONE), "reads 'norm.running_mean' after")
        for kind in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
            net = Stateful(spectral)
            kind(net.layer)
            self.assert_refused(lambda net=net: train(net, **self.ONE), "writes into 'layer.", "a buffer: training updates only")

    def test_others_are_noted(self):
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            self.assert_equal(train(with_inner(False), 3, **self.ONE), losses_of_torch(with_inner(False), 3))
        self.assertIn("inner.mean: forward assigns this buffer", "".join(str(each.message) for each in issued))
        for function, name in ((average_of_weights, "weights"), (written_before_read, "mean"), (unread_counter, "steps"),
                               (of_statistics_before, None), (shared_statistics, None)):
            with self.subTest(function.__name__), warnings.catch_warnings(record=True) as issued:
                warnings.simplefilter("always")
                self.assert_equal(train(Stateful(function), 3, **self.ONE), losses_of_torch(Stateful(function), 3))
                noted = [str(each.message) for each in issued if "keeps its value" in str(each.message)]
                self.assertEqual([name for each in noted if name and name in each], [name] if name else [])
                self.assertEqual(len(noted), 1 if name else 0)


class Twice(nn.Module):
    """Batch normalization that runs twice, and one in evaluation mode."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.norm, self.fixed = nn.Linear(4, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3).eval()

    def forward(self, x):
        return self.fixed(self.norm(self.norm(self.layer(x)).tanh()))


class Counters(Case):
    """Counters of the mini-batches of batch normalization."""

    def test_they_are_those_of_a_loop(self):
        net, wanted = Twice(), Twice()
        with trainer(net, micro_batches=1) as opened:
            opened.step(data())
            opened.step([data(seed=2), data(seed=3), data(seed=4)])
            opened.accumulate(data())
            opened.step(data())
            found = opened.state_dict()
        for _ in range(6):
            wanted(X)
        for name in ("norm.num_batches_tracked", "fixed.num_batches_tracked"):
            self.assertEqual(found[name], wanted.state_dict()[name], name)


class Positioned(nn.Module):
    """Words by position, a layer and a normalization that nothing reads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.layer, self.norm = nn.Embedding(4, 4), nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.unread, self.unread_norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.register_buffer("positions", torch.arange(4))
        self.register_buffer("temporary", torch.zeros(3), persistent=False)
        for parameter in (*self.unread.parameters(), *self.unread_norm.parameters()):
            parameter.requires_grad_(False)

    def forward(self, x):
        return self.norm(self.layer(x + self.words(self.positions).sum(0))) + self.temporary


class States(Case):
    """States of a trainer and of the module, with what no step reads."""

    def test_they_are_exchanged(self):
        net, other = Positioned(), Positioned()
        with trainer(net, micro_batches=1) as opened:
            opened.step(data())
            opened.step(data())
            other.load_state_dict(opened.state_dict())
            self.assertEqual(other.norm.num_batches_tracked.item(), 2)
            other.norm.num_batches_tracked.fill_(7)
            opened.load_state_dict(other.state_dict())
            opened.step(data())
            self.assertEqual(opened.state_dict()["norm.num_batches_tracked"].item(), 8)
            other.unread.weight.fill_(5.0)
            opened.to_module(other)
            self.assertEqual(other.unread.weight[0, 0].item(), 5.0)

    def test_other_constants_are_refused(self):
        net = Positioned()
        with trainer(net, micro_batches=1) as opened:
            for strict in (True, False):
                with self.assertRaisesRegex(rannc.Error, "positions: differs from the module's(.|\n)*another trainer"):
                    opened.load_state_dict({**net.state_dict(), "positions": torch.zeros(4, dtype=torch.int64)}, strict)
            with self.assertRaisesRegex(rannc.Error, "unexpected: other"):
                opened.load_state_dict({**net.state_dict(), "other": torch.zeros(4)})


class Files(Case):
    """Programs in files, which have what PyTorch has stored in them."""

    def test_traces_that_write_what_the_next_step_reads(self):
        def kept(net, x):
            net.average.mul_(0.9).add_(x.detach().mean(0)[:3])
            return net.layer(x) - net.average
        for function, named in ((kept, None), (copied, "mean"), (counter, "steps")):
            with self.subTest(function.__name__), tempfile.TemporaryDirectory() as folder:
                torch.jit.trace(Stateful(function), X, check_trace=False).save(f"{folder}/net.pt")
                self.assert_refused(lambda folder=folder: rannc._core.read(
                    f"{folder}/net.pt", ["--input=x=f32[8,4]"], rannc.compiler.Reporter(False)),
                                    f"writes into '{named}'" if named else "writes into", "depends on what the step before left")

    def test_exported_programs_that_write_what_the_next_step_reads(self):
        for function in (copied, counter, normalized_by_hand, assigned):
            made = torch.export.export(Stateful(function), (X,))
            for program in (made, made.run_decompositions({})):
                with self.subTest(function.__name__), tempfile.TemporaryDirectory() as folder:
                    torch.export.save(program, f"{folder}/net.pt2")
                    with self.assertRaisesRegex(rannc.Error, "writes into '.*depends on what the step before left"):
                        rannc.read(f"{folder}/net.pt2")


class Temperature(nn.Module):
    """A loss with a learned factor."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.3))

    def forward(self, outputs, batch):
        return nn.functional.cross_entropy(outputs / self.factor, batch[1])


class Margin(nn.Module):
    """A classifier of normalized features, as in face recognition."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.head = nn.Linear(3, 3, bias=False)

    def forward(self, features, labels):
        cosine = nn.functional.linear(nn.functional.normalize(features), nn.functional.normalize(self.head.weight))
        return nn.functional.cross_entropy(4 * cosine - 2 * nn.functional.one_hot(labels, 3), labels)


def of_margin(margin):
    return lambda outputs, batch: margin(outputs, batch[1])


class OfHead:
    """A loss that is a method of an object with a module."""

    def __init__(self, margin):
        self.margin = margin

    def of(self, outputs, batch):
        return self.margin(outputs, batch[1])


def of_several(margins, outputs, batch):
    return margins[0](outputs, batch[1])


class OfLoss(nn.Module):
    """Has a loss of that name of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.loss = nn.Linear(4, 3), None

    def forward(self, x):
        return self.layer(x)


def plain():
    return Forward(lambda net, x: net.layer(x))


def sequence():
    """Iterates over its modules in forward."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3))


def of_head(head):
    return lambda outputs, batch: loss(head(outputs), batch)


def by_all_weights():
    """Iterates over its parameters in forward."""
    return Forward(lambda net, x: net.layer(x) * sum(each.square().mean() for each in net.parameters()))


class Losses(Case):
    """Parameters of the loss."""

    def reference(self, net, module, value, trained, steps=3):
        optimizer = torch.optim.SGD(trained, 0.1)
        losses = []
        for number in range(steps):
            optimizer.zero_grad()
            batch = data(seed=number)
            made = value(net(batch[0]), batch)
            made.backward()
            optimizer.step()
            losses.append(made.item())
        return losses, {**net.state_dict(), **module.state_dict(prefix="loss.")}

    def check(self, make_net, make_module, make_value, optimizer_of, in_loss, **options):
        (net, module), (other_net, other) = [(make_net(), make_module()) for _ in range(2)]
        other.load_state_dict(module.state_dict())
        wanted, state = self.reference(other_net, other, make_value(other), optimizer_of(other_net, other))
        optimizer = options.pop("named", None) or torch.optim.SGD(optimizer_of(net, module), 0.1)
        with trainer(net, loss=make_value(module), optimizer=optimizer, **options) as opened:
            losses = [opened.step(data(seed=number)).item() for number in range(3)]
            self.assertEqual(sorted(name for name in opened.state_dict() if name not in net.state_dict()), in_loss)
            opened.to_module(net)
        self.assert_equal(losses, wanted)
        for name, tensor in {**net.state_dict(), **module.state_dict(prefix="loss.")}.items():
            torch.testing.assert_close(tensor, state[name])
        self.assertEqual(sorted(net._modules), sorted(other_net._modules))

    def both(self, net, module):
        return [*net.parameters(), *module.parameters()]

    def test_a_module_and_its_loss_are_trained_together(self):
        same = lambda module: module
        self.check(plain, Temperature, same, self.both, ["loss.factor"])
        self.check(plain, Temperature, same, self.both, ["loss.factor"], named="sgd", learning_rate=0.1)
        self.check(plain, Temperature, lambda module: module.forward, self.both, ["loss.factor"])
        self.check(OfLoss, Temperature, same, self.both, ["loss_.factor"])
        self.check(plain, Margin, of_margin, self.both, ["margin.head.weight"])

    def test_modules_of_the_loss_are_none_of_the_module(self):
        for net in (sequence, by_all_weights):
            self.check(net, Temperature, lambda module: module, self.both, ["loss.factor"])
            self.check(net, lambda: nn.Linear(3, 3), of_head, self.both, ["head.bias", "head.weight"])

    def test_what_no_optimizer_has_stays(self):
        of_net = lambda net, module: net.parameters()
        self.check(plain, Temperature, lambda module: module, of_net, [])
        self.check(plain, Margin, of_margin, of_net, [])

    def test_parameters_beside_a_named_optimizer_are_noted(self):
        margin = Margin()
        factor, inner = margin.head.weight, of_margin(margin)
        for value, place in ((of_margin(margin), "margin.head.weight"), (OfHead(margin).of, "loss.margin.head.weight"),
                             (functools.partial(of_several, [margin]), "loss.args[0][0].head.weight"),
                             (lambda outputs, batch: inner(outputs, batch), "loss.inner.margin.head.weight"),
                             (lambda outputs, batch: loss(outputs @ factor, batch), "loss.factor")):
            for constant in (False, True):
                margin.requires_grad_(not constant)
                with warnings.catch_warnings(record=True) as issued:
                    warnings.simplefilter("always")
                    train(plain(), loss=value, optimizer="sgd", learning_rate=0.1)
                found = [str(each.message) for each in issued if f"{place}: parameters beside those of the module" in str(each.message)]
                self.assertEqual(len(found), 0 if constant else 1, place)

    def test_checkpoints_have_the_parameters_of_the_loss(self):
        def run(resume, steps):
            net, module = plain(), Temperature()
            with trainer(net, loss=module, optimizer=torch.optim.SGD(self.both(net, module), 0.1), resume=resume) as opened:
                losses = [opened.step(data(seed=opened.steps_done)).item() for _ in range(steps)]
                opened.save(folder)
                return losses
        with tempfile.TemporaryDirectory() as folder:
            found = run(None, 2) + run(folder, 2)
        self.assert_equal(found, self.reference(*(pair := (plain(), Temperature())), pair[1], self.both(*pair), 4)[0])

    def test_states_with_and_without_the_parameters_of_the_loss(self):
        net, module = sequence(), Temperature()
        with trainer(net, loss=module, optimizer=torch.optim.SGD(self.both(net, module), 0.1)) as opened:
            opened.step(data()).item()
            with self.assertRaisesRegex(rannc.Error, "reads gradients of the module"):
                nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            factor = opened.state_dict()["loss.factor"]
            opened.load_state_dict(net.state_dict())
            found = opened.state_dict()
            self.assertTrue(torch.equal(found["0.weight"], net[0].weight))
            self.assertTrue(torch.equal(found["loss.factor"], factor))
            with self.assertRaisesRegex(rannc.Error, "0.bias"):
                opened.load_state_dict({"0.weight": net[0].weight.detach()})
            with torch.no_grad():
                module.factor.fill_(2.0)
            with self.assertWarnsRegex(rannc.Warning, "loss.factor: the parameter of the loss was written"):
                opened.step(data()).item()
            opened.load_state_dict(module.state_dict(prefix="loss."), strict=False)
            self.assertEqual(opened.state_dict()["loss.factor"].item(), 2.0)
        self.assertIsNone(module.factor.grad)

    def test_others_are_refused(self):
        factor = nn.Parameter(torch.tensor(1.3))
        net = plain()
        with self.assertRaisesRegex(rannc.Error, r"a parameter of shape \(\)(.|\n)*loss= is a\s*module"):
            train(net, loss=lambda outputs, batch: loss(outputs / factor, batch),
                  optimizer=torch.optim.SGD([*net.parameters(), factor], 0.1))
        module = Temperature()
        module.net = net
        with self.assertRaisesRegex(rannc.Error, "Temperature has the module in it"):
            train(net, loss=module, optimizer="sgd", learning_rate=0.1)


WEIGHT = 1.0


class Weighted(nn.Module):
    """A loss with a weight, and with an attribute that it does not read."""

    def __init__(self):
        super().__init__()
        self.weight, self.epoch = 1.0, 0

    def forward(self, outputs, labels):
        return nn.functional.cross_entropy(outputs, labels) * self.weight

    def set_epoch(self, epoch):
        self.epoch = epoch


class Changes(Case):
    """Values that a script changes between steps, which have them as constants."""

    def warnings_of(self, change, net, loss=loss):
        """Texts of the warnings of two steps, of which the second follows a change."""
        with trainer(net, loss=loss) as opened:
            opened.step(data()).item()
            change()
            with warnings.catch_warnings(record=True) as issued:
                warnings.simplefilter("always")
                for _ in range(2):
                    opened.step(data()).item()
        return [str(each.message) for each in issued]

    def test_values_that_are_read_are_named(self):
        weight, tensor, module, net = [1.0], torch.ones(()), Weighted(), plain()
        scaled = Forward(lambda net, x: net.layer(x) * net.scale)
        scaled.scale, scaled.dropout = 1.0, nn.Dropout(0.0)
        factor = 1.0

        def of_closure(outputs, batch):
            return loss(outputs, batch) * factor * weight[0] * WEIGHT + tensor * module(outputs, batch[1])

        def assign():
            nonlocal factor
            factor = 2.0
        for place, net, change in (
                ("loss.factor", net, assign), ("loss.weight[0]", net, lambda: weight.__setitem__(0, 2.0)),
                ("loss.WEIGHT", net, lambda: globals().update(WEIGHT=2.0)), ("loss.tensor", net, lambda: tensor.fill_(2.0)),
                ("module.weight", net, lambda: setattr(module, "weight", 2.0)),
                ("scale", scaled, lambda: setattr(scaled, "scale", 2.0)),
                ("dropout.p", scaled, lambda: setattr(scaled.dropout, "p", 0.5)),
                ("dropout.training", scaled, scaled.dropout.eval)):
            with self.subTest(place):
                found = self.warnings_of(change, net, of_closure)
                self.assertEqual([text.partition(":")[0] for text in found], [place])

    def test_tensors_of_the_module_are_named(self):
        def buffered():
            return Forward(lambda net, x: net.layer(x) + net.mean)
        for place, kind, change in (
                ("layer.weight", "parameter", lambda net: setattr(net.layer.weight, "data", torch.ones(3, 4))),
                ("layer.weight and 1 more", "parameter", lambda net: net.layer.load_state_dict(nn.Linear(4, 3).state_dict(), assign=True)),
                ("mean", "buffer", lambda net: net.mean.fill_(1.0)), ("mean", "buffer", lambda net: setattr(net, "mean", torch.ones(3)))):
            net = buffered()
            with self.subTest(place):
                text, = self.warnings_of(lambda change=change, net=net: change(net), net)
                self.assertIn(f"{place}: the {kind} of the module was written", text)
        net = buffered()
        self.assertEqual(self.warnings_of(net.share_memory, net), [])

    def test_others_are_not(self):
        module, scaled, losses = Weighted(), Forward(lambda net, x: net.layer(x) * net.scale), []
        scaled.scale, scaled.epoch = 1.0, 0

        def change():
            module.set_epoch(1)
            scaled.epoch, scaled.scale, scaled.new = 1, float("1"), 5
            losses.append(3.0)
        self.assertEqual(self.warnings_of(change, scaled, lambda outputs, batch: module(outputs, batch[1])), [])


if __name__ == "__main__":
    programs.main()
