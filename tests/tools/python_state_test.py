"""Modules and losses that keep something from one step for the next: each trains with the numbers of PyTorch, or is an error or a
warning that names what it keeps. Skipped without PyTorch."""
import unittest
import warnings

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


class Annealed:
    """A loss that is a method, with a factor of its number of calls."""

    def __init__(self):
        self.steps = 0

    def of(self, outputs, batch):
        self.steps += 1
        return loss(outputs, batch) * 0.5 ** self.steps


def inspected(net, x):
    h = net.layer(x)
    net.last, net.made = h.softmax(-1), h
    net.log.append(h.mean())
    net.notes["mean"] = h.detach().mean()
    return h + 0 * net.made


def cached(net, x):
    """Keeps a table that depends on sizes alone."""
    if net.last is None or net.calls < x.shape[1]:
        net.calls, net.last = x.shape[1], torch.arange(3.0) * x.shape[1]
    return net.layer(x) * net.last


class Attributes(Case):
    def test_those_that_the_next_call_reads_are_refused(self):
        for attribute, function in (("calls", counted), ("notes['on']", toggled), ("log[0]", listed), ("average", averaged),
                                    ("first", made_once), ("last", of_the_call_before), ("last", masked)):
            with self.subTest(function.__name__):
                self.assert_refused(lambda function=function: train(Forward(function)), f"{attribute}: forward or loss changes",
                                    "which the next call reads", "batch_axis=")
        self.assert_refused(lambda: train(Forward(lambda net, x: net.layer(x)), loss=Annealed().of), "loss.steps", "0 became 1")

    def test_others_are_left_as_they_were(self):
        for function in (inspected, cached):
            net = Forward(function)
            log = net.log
            with self.subTest(function.__name__), warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assert_equal(train(net), losses_of_torch(Forward(function)))
                self.assertIs(net.last, None)
                self.assertIs(net.log, log)
                self.assertEqual((net.calls, net.log, net.notes, hasattr(net, "made")), (0, [], {}, False))

    def test_a_buffer_whose_data_are_replaced(self):
        def replaced(net, x):
            h = net.layer(x)
            net.mean.data = 0.9 * net.mean + 0.1 * h.detach().mean(0)
            return h - net.mean
        self.assert_refused(lambda: train(Forward(replaced)), "sets `.data`", "copy_()")
        self.assertNotIn("data", vars(torch.Tensor))


if __name__ == "__main__":
    programs.main()
