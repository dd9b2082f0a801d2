"""Wrong uses of the package `rannc` in Python: each ends in an error or a warning that names place, cause and remedy, and never in a
wrong number. Prints the table. Skipped without PyTorch."""
import copy
import io
import os
import pathlib
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

import programs
from python_package import BIN

import rannc
import torch
from torch import nn
from torch.autograd import grad as gradient_by_name

WRONG = []  # name, what is used, words that are said
SAID = []
TWO = dict(cluster="local:2", stages=2, micro_batches=2, costs="analytic", progress=False)


def case(name, use, *words):
    """An error that says all words, each of which may have alternatives: `one|other`."""
    WRONG.append((name, use, words))


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def data(samples=8, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, 4, generator=generator), torch.randint(3, (samples,), generator=generator)


def loss(outputs, batch):
    return nn.functional.cross_entropy(outputs, batch[1])


def sgd(net, **settings):
    return torch.optim.SGD(net.parameters(), **{"lr": 0.1, **settings})


def trainer(net=None, example=None, **options):
    net = mlp() if net is None else net
    if "optimizer" not in options:
        options["optimizer"] = sgd(net)
    return rannc.Trainer(net, data() if example is None else example, **{"loss": loss, **TWO, **options})


def step(batch, **options):
    with trainer(**options) as opened:
        return opened.step(batch).item()


def train(net=None, steps=2, **options):
    with trainer(net, **options) as opened:
        return [opened.step(data()).item() for _ in range(steps)]


def within(use, **options):
    """Uses an open trainer after its first step: use(trainer, net, optimizer)."""
    net = mlp()
    optimizer = sgd(net)
    with trainer(net, optimizer=optimizer, **options) as opened:
        opened.step(data()).item()
        use(opened, net, optimizer)
        return opened.step(data()).item()


class Forward(nn.Module):
    """A linear layer within a function of the test."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function, self.calls = nn.Linear(4, 3), function, 0
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.function(self, x)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.round()

    @staticmethod
    def backward(context, gradient):
        return gradient


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x.view_as(x)

    @staticmethod
    def setup_context(context, inputs, output):
        context.factor = inputs[1]

    @staticmethod
    def backward(context, gradient):
        return -context.factor * gradient, None


class Asserted(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        assert x.dtype == torch.float32
        return x * 1

    @staticmethod
    def backward(context, gradient):
        return gradient


class Silu(torch.autograd.Function):
    """With its own formula of the same gradient."""
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        s = torch.sigmoid(x)
        return gradient * (s + x * s * (1 - s))


def with_hook(x):
    x.register_hook(lambda gradient: gradient * 0.1)
    return x


def by_name(net, h):
    return h + gradient_by_name(h.sum(), [net.layer.weight])[0].sum()


X, Y = data()

# Batches.
case("batch of another width", lambda: step((X[:, :3], Y)), "batch entry 'input'", "(8, 3)", "expected (8, 4)")
case("float64 for a float32 model", lambda: step((X.double(), Y)), "batch entry 'input'", "torch.float64", "expected torch.float32")
case("complex numbers", lambda: step((X.cfloat(), Y)), "torch.complex64", "expected torch.float32")
case("sparse tensor", lambda: step((X.to_sparse(), Y)), "torch.sparse_coo", "to_dense()")
case("float labels", lambda: step((X, Y.float())), "batch entry 'labels'", "expected torch.int64")
case("last batch of 5 samples", lambda: step((X[:5], Y[:5])), "has 5 samples", "drop_last=True")
case("labels of 5 samples", lambda: step((X, Y[:5])), "batch entry 'labels'", "has 5 samples")
case("tuple of 3", lambda: step((X, Y, Y)), "tuple of 3", "expected a tuple of 2")
case("dictionary for a tuple", lambda: step({"x": X, "y": Y}), "is a dict", "expected a tuple")
case("list in a batch", lambda: step((X, Y.tolist())), "batch entry 'labels'", "is a list", "expected a tensor")
case("batch on meta", lambda: step((X.to("meta"), Y)), "device meta", "expected cpu")
case("NaN in a batch", lambda: step((X * float("nan"), Y)), "step 0", "loss is nan")
case("labels out of range", lambda: step((X, Y + 5)), "'labels'", "sample 0", "classes are 0 to 2")
case("empty list of batches", lambda: step([]), "empty list|is empty")
case("missing key", lambda: step({"x": X}, net=Forward(lambda net, x: net.layer(x)), example={"x": X, "y": Y},
                                 loss=lambda out, batch: nn.functional.cross_entropy(out, batch["y"])), "lacks 'y'", "it has 'x'")

# Examples.
case("example of one sample", lambda: trainer(example=data(1)), "has 1 sample", "two or more")
case("example of unequal counts", lambda: trainer(example=(X, Y[:6])), "'input' has 8 samples", "'labels' has 6")
case("example that is a DataLoader", lambda: trainer(example=torch.utils.data.DataLoader([1])), "DataLoader", "expected a tensor")
case("batch_axis of no entry", lambda: trainer(batch_axis={"x": 1}), "batch_axis", "'x'")
case("dynamic axis that is not there", lambda: trainer(dynamic={0: {7: "s"}}), "dynamic", "axis 7", "2 axes")
case("dynamic length of a recurrent layer", lambda: trainer(nn.GRU(4, 3, batch_first=True), (torch.randn(8, 5, 4), Y), dynamic={0: {1: "length"}},
                                                            loss=lambda out, batch: loss(out[0].mean(1), batch)),
     "the module or the loss function does not work for all sizes", "unrolls nn.GRU", "pad")
case("number for a name of dynamic", lambda: trainer(dynamic={0: {1: 3}}), "dynamic", "identifier")

# Losses.
case("loss of each sample", lambda: train(loss=lambda out, batch: nn.functional.cross_entropy(out, batch[1], reduction="none")),
     "loss", "shape (samples)", ".mean()")
case("loss that is a float", lambda: train(loss=lambda out, batch: 1.0), "loss", "is a float", "expected a tensor")
case("loss of item()", lambda: train(loss=lambda out, batch: loss(out, batch).item()), "loss", "item()", "expected a tensor")
case("loss that is None", lambda: train(loss=lambda out, batch: None), "loss", "NoneType")
case("detached loss", lambda: train(loss=lambda out, batch: loss(out.detach(), batch)), "nothing to train", "detach")
case("loss by name", lambda: train(loss="cross_entropy"), "loss", "is a str", "expected a function")
case("loss that raises", lambda: train(loss=lambda out, batch: {}["key"]), "python_wrong_uses_test.py:", "loss function raised KeyError")
case("no loss", lambda: train(loss=None), "has 2 entries", "forward takes 'input'", "loss=")
case("std of samples, divided", lambda: train(loss=lambda out, batch: out.std(0).mean()), "python_wrong_uses_test.py:",
     "micro-batches are requested")

# Modules.
case("if of numbers", lambda: train(Forward(lambda net, x: net.layer(x) if x.sum() > 0 else x[:, :3])), "python_wrong_uses_test.py:",
     "decides by the numbers", "torch.where")
case("loop by numbers", lambda: train(Forward(lambda net, x: [net.layer(x) for _ in range(int(x[0, 0].abs()))][0])),
     "python_wrong_uses_test.py:", "decides by the numbers")
case("NumPy in forward", lambda: train(Forward(lambda net, x: net.layer(torch.from_numpy(x.numpy())))), "NumPy", "functions of torch")
case("layer drop", lambda: train(Forward(lambda net, x: net.layer(x) if torch.rand([]) < 0.5 else net.layer(-x))),
     "python_wrong_uses_test.py:", "random number", "layerdrop=0")
case("straight-through function", lambda: train(Forward(lambda net, x: Rounded.apply(net.layer(x)))), "python_wrong_uses_test.py:",
     "Rounded", "not the gradient of its forward", "detach()")
case("reversed gradient", lambda: train(Forward(lambda net, x: net.layer(Reversed.apply(net.layer(x).repeat(1, 2)[:, :4], 0.5)))),
     "Reversed", "not the gradient of its forward")
case("function that needs other numbers", lambda: train(Forward(lambda net, x: Asserted.apply(net.layer(x)))), "Asserted",
     "not known whether", "AssertionError")
case("hook of an activation", lambda: train(Forward(lambda net, x: with_hook(net.layer(x)))), "python_wrong_uses_test.py:",
     "hook of a gradient", "x.detach()")
case("gradient within a loss", lambda: train(loss=lambda out, batch: torch.autograd.grad(loss(out, batch), out)[0].sum()),
     "python_wrong_uses_test.py:", "loss function computes a gradient")
case("backward within a loss", lambda: train(loss=lambda out, batch: loss(out, batch).backward()), "loss function computes a gradient")
case("jacobian", lambda: train(Forward(lambda net, x: torch.vmap(torch.func.jacrev(net.layer))(x)[..., 0])), "computes a gradient")
case("data of an activation", lambda: train(Forward(lambda net, x: net.layer(x).data + net.layer(x))), "x.detach() instead of x.data")
case("gradient by a function imported by name", lambda: train(Forward(lambda net, x: by_name(net, net.layer(x)))),
     "python_wrong_uses_test.py:", "forward of Forward computes a gradient")
case("forward-mode gradient", lambda: train(Forward(lambda net, x: torch.func.jvp(net.layer, (x,), (x,))[1])),
     "python_wrong_uses_test.py:", "forward of Forward computes a gradient")
case("averages over all steps", lambda: train(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=None))), "1: has momentum=None",
     "momentum=0.1")
case("DataParallel", lambda: train(nn.DataParallel(mlp())), "DataParallel", "net.module")
case("a class", lambda: train(nn.Linear, optimizer="sgd"), "the class Linear", "expected a module")
case("None for a module", lambda: rannc.Trainer(None), "NoneType", "expected a module")
case("module on meta", lambda: train(mlp().to("meta")), "0.weight", "meta device", "to_empty")
case("frozen module", lambda: train(mlp().requires_grad_(False), optimizer="sgd"), "nothing to train", "train=")


def hooked():
    net = mlp()
    net.register_forward_hook(lambda *_: None)
    return net


def with_gradient_hook():
    net = mlp()
    net[0].weight.register_hook(lambda gradient: gradient * 0)
    return net


case("forward hook", lambda: train(hooked()), "forward hooks")
case("gradient hook", lambda: train(with_gradient_hook()), "0.weight", "hook of its gradient", "trainer.gradients()|clip_norm=")
case("spectral normalization", lambda: train(nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)))),
     "python_wrong_uses_test.py:", "_v'")


# Optimizers.
def stepped(net):
    optimizer = sgd(net, momentum=0.9)
    loss(net(X), (X, Y)).backward()
    optimizer.step()
    return optimizer


def optimized(make):
    net = mlp()
    return train(net, optimizer=make(net))


def wait_hooked(net):
    optimizer = sgd(net)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


case("RMSprop", lambda: optimized(lambda net: torch.optim.RMSprop(net.parameters())), "RMSprop", "expected one of")
case("Adagrad", lambda: optimized(lambda net: torch.optim.Adagrad(net.parameters())), "Adagrad", "expected one of")
case("LBFGS", lambda: optimized(lambda net: torch.optim.LBFGS(net.parameters())), "LBFGS", "expected one of")
case("dampening", lambda: optimized(lambda net: sgd(net, momentum=0.9, dampening=0.1)), "dampening=0.1", "dampening=0 only")
case("maximize", lambda: optimized(lambda net: sgd(net, maximize=True)), "maximize=True", "maximize=False only")
case("optimizer of another module", lambda: optimized(lambda net: sgd(mlp())), "shape (8, 4)", "does not have")
case("optimizer of a part", lambda: optimized(lambda net: sgd(net[0])), "no group", "'2.bias' and 1 more", "requires_grad_(False)")
case("optimizer with state", lambda: optimized(stepped), "has made steps already", "resume=")
case("optimizer with hooks", lambda: optimized(wait_hooked), "hooks of its steps")
case("class of an optimizer", lambda: train(optimizer=torch.optim.SGD), "the class SGD", "expected an object of torch.optim")
case("optimizer of an open trainer", lambda: within(lambda opened, net, optimizer: trainer(net, optimizer=optimizer)),
     "another trainer", "close()")
case("learning_rate= beside an optimizer", lambda: train(learning_rate=0.1), "learning_rate=", "scheduler")


# Steps of a loop that does more than it may.
def frozen_later(opened, net, optimizer):
    net[0].requires_grad_(False)


def negative_rate(opened, net, optimizer):
    optimizer.param_groups[0]["lr"] = -0.1


def momentum_later(opened, net, optimizer):
    optimizer.param_groups[0]["momentum"] = 0.9


def accumulated(opened, net, optimizer):
    opened.accumulate(data())
    opened.step(data())
    opened.reschedule(micro_batches=1)
    opened.accumulate(data())
    opened.reschedule(micro_batches=2)


def negative_decay(opened, net, optimizer):
    optimizer.param_groups[0]["weight_decay"] = -0.1


case("optimizer.step()", lambda: within(lambda opened, net, optimizer: optimizer.step()), "would do nothing", "leave the call out")
case("loss.backward()", lambda: within(lambda opened, net, optimizer: opened.step(data()).backward()), "loss.backward()", "leave out")
case("clip_grad_norm_", lambda: within(lambda opened, net, optimizer: nn.utils.clip_grad_norm_(net.parameters(), 1.0)),
     "gradients", "clip_norm=")
case("own backward pass", lambda: within(lambda opened, net, optimizer: loss(net(X), (X, Y)).backward()), "gradients", "close()")
case("GradScaler.scale", lambda: within(lambda opened, net, optimizer: torch.amp.GradScaler("cpu").scale(opened.step(data()))),
     "cannot be scaled", "precision='fp16'")
case("parameters frozen later", lambda: within(frozen_later), "0.bias|0.weight", "requires no gradient now", "another trainer")
case("group added later", lambda: within(lambda opened, net, optimizer: optimizer.add_param_group(
    {"params": [nn.Parameter(X)]})), "has 2 groups", "it had 1")
case("negative rate", lambda: within(negative_rate), "learning rate -0.1")
case("reschedule with accumulated gradients", lambda: within(accumulated), "gradients are accumulated", "trainer.step()")
case("negative decay", lambda: within(negative_decay), "optimizer: ", "weight_decay=-0.1: expected 0 or a positive number")
case("momentum later", lambda: within(momentum_later), "optimizer", "momentum that was 0")
case("a copied trainer", lambda: within(lambda opened, net, optimizer: copy.deepcopy(opened)), "cannot be copied", "state_dict()")
case("to_module of another class", lambda: within(lambda opened, net, optimizer: opened.to_module(nn.Linear(4, 3))),
     "does not have '0.bias'")
case("to_module of another shape", lambda: within(lambda opened, net, optimizer: opened.to_module(nn.Sequential(
    nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3)))), "'0.bias'", "(9,)", "(8,)")
case("state without all parameters", lambda: within(lambda opened, net, optimizer: opened.load_state_dict({})), "4 missing")


def closed(use):
    opened = trainer()
    opened.close()
    opened.close()
    use(opened)


for use in ("step", "evaluate", "state_dict", "gradients", "save"):
    def after_close(use=use):
        closed(lambda opened: getattr(opened, use)(*([data()] if use in ("step", "evaluate") else ["x"] if use == "save" else [])))
    case(f"{use} after close", after_close, "the trainer is closed", "make another one")


def lost():
    with trainer() as opened:
        opened.step((X, Y + 9))


def twice_failed():
    with trainer() as opened:
        try:
            opened.step((X * float("nan"), Y)).item()
        except rannc.Error:
            pass
        opened.step(data()).item()


case("last step fails, and nobody reads its loss", lost, "'labels' holds")
case("step after one of NaN", twice_failed, "loss is nan")

# Arguments.
case("stagess=", lambda: trainer(stagess=2), "'stagess'", "'stages'")
case("lr=", lambda: trainer(lr=2), "'lr'", "'learning_rate'")
case("batch_size=", lambda: trainer(batch_size=2), "'batch_size'", "'mini_batch'")
case("clip_norm= of compile", lambda: rannc.compile(mlp(), data(), "x.rannc", clip_norm=1), "clip_norm=", "rannc.Trainer")
case("stages=0", lambda: trainer(stages=0), "stages=", "from 1", "'0'")
case("stages=9", lambda: trainer(stages=9), "9 stages", "at most 2", "what would help")
case("cluster='nope'", lambda: trainer(cluster="nope"), "'nope'", "local:N")
case("cluster=''", lambda: trainer(cluster=""), "cluster=", "empty")
case("memory='x'", lambda: trainer(memory="x"), "memory=", "16GiB")
case("micro_batches=0", lambda: trainer(micro_batches=0), "micro_batches=", "from 1")
case("micro_batches=16", lambda: trainer(micro_batches=16), "micro_batches=16", "8 samples")
case("threads=0", lambda: trainer(threads=0), "threads", "from 1")
case("progress=3", lambda: trainer(progress=3), "progress", "expected a function")
case("resume= of no run", lambda: trainer(resume="/nowhere"), "/nowhere", "no finished checkpoint")
case("optimizer='sdg'", lambda: trainer(optimizer="sdg"), "sdg", "adamw")


def folder_of(use):
    with tempfile.TemporaryDirectory() as folder:
        return use(pathlib.Path(folder))


def existing(folder, **options):
    (folder / "mine").mkdir()
    (folder / "mine" / "file").write_text("text")
    trainer(bundle=folder / "mine", **options)


def other_run(folder):
    with trainer() as opened:
        opened.step(data())
        opened.save(folder)
    trainer(nn.Sequential(nn.Linear(4, 3)), resume=folder, stages=1, cluster="local:1")


def bundle_with(folder, **options):
    rannc.compile(mlp(), data(), folder / "x.rannc", loss=loss, **TWO)
    rannc.Trainer(folder / "x.rannc", **options)


case("bundle= that exists", lambda: folder_of(existing), "exists already")
case("replace= of what is no bundle", lambda: folder_of(lambda folder: existing(folder, replace=True)), "is not a bundle")
case("bundle that is none", lambda: folder_of(lambda folder: rannc.Trainer(folder)), "manifest.json")
case("bundle with stages=", lambda: folder_of(lambda folder: bundle_with(folder, stages=2)), "stages=", "is a bundle")
case("bundle with loss=", lambda: folder_of(lambda folder: bundle_with(folder, loss=loss)), "loss", "is a bundle")
case("resume= of another model", lambda: folder_of(other_run), "another model")


def environment(**variables):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        trainer()
    finally:
        os.environ.clear()
        os.environ.update(before)


case("WORLD_SIZE without RANK", lambda: environment(WORLD_SIZE="2"), "2 processes", "RANK")
case("WORLD_SIZE without MASTER_PORT", lambda: environment(WORLD_SIZE="2", RANK="0", MASTER_ADDR="127.0.0.1"), "MASTER_PORT", "torchrun")
case("WORLD_SIZE=two", lambda: environment(WORLD_SIZE="two", RANK="0"), "WORLD_SIZE", "'two'")
case("RANK=5 of 2", lambda: environment(WORLD_SIZE="2", RANK="5", MASTER_ADDR="127.0.0.1", MASTER_PORT="1"), "rank 5 of 2")


class Masked(nn.Module):
    """A layer with an entry of the batch that may be missing."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, mask=None):
        return self.layer(x) if mask is None else self.layer(x) * mask


def masked_later(use):
    """Uses a trainer whose example has no mask, with a batch that has one."""
    batch = {"x": X, "labels": Y}
    with trainer(Masked(), batch, loss=lambda out, batch: nn.functional.cross_entropy(out, batch["labels"])) as opened:
        opened.step({**batch, "mask": None}).item()
        use(opened, {**batch, "mask": torch.zeros(8, 3)})


case("entry that the example lacked", lambda: masked_later(lambda opened, batch: opened.step(batch)), "'mask'", "example lacked")
case("entry that the example lacked, in an evaluation", lambda: masked_later(lambda opened, batch: opened.evaluate(batch)), "'mask'",
     "example lacked")

# Warnings: name, use, words.
WARNED = []


def warned(name, use, *words):
    WARNED.append((name, use, words))


def drawn(net, x):
    return net.layer(x) * random.random()


def counted(net, x):
    net.calls += 1
    return net.layer(x)


def instance_normalized():
    net = Forward(lambda net, x: net.norm(net.layer(x)[:, None])[:, 0])
    net.norm = nn.InstanceNorm1d(1, track_running_stats=True)
    return net


def seen(net, x):
    net.seen += 1
    return net.layer(x)


def written(opened, net, optimizer):
    with torch.no_grad():
        net[0].weight.mul_(0.5)


def in_autocast():
    with torch.autocast("cpu"):
        train()


class Normalized(nn.Module):
    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.norm, self.head = nn.Linear(4, 6), norm(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.norm(self.layer(x)))


def unread():
    mask = torch.ones(8, 3)
    step((X, mask, Y), net=Masked(), example=(X, mask, Y), loss=lambda out, batch: nn.functional.cross_entropy(out, batch[2]))


def paired(outputs, batch):
    return nn.functional.cross_entropy(outputs @ outputs.t(), torch.arange(len(outputs)))


warned("evaluation mode", lambda: train(mlp().eval()), "evaluation mode", "net.train()")
warned("random numbers of Python", lambda: train(Forward(drawn)), "random numbers of Python", "torch.rand")
warned("attribute that forward changes", lambda: train(Forward(counted)), "calls", "forward changes this attribute", "0 became 1")
warned("buffer that forward writes", lambda: train(Forward(seen)), "seen", "keeps its value")
warned("module written while it is trained", lambda: within(written), "0.weight", "load_state_dict")
warned("autocast", in_autocast, "torch.autocast", "precision='bf16'")
warned("batch normalization of micro-batches", lambda: train(Normalized()), "batch normalization", "of 4 samples",
       ": micro_batches=1")
warned("batch normalization of replicas", lambda: train(Normalized(), cluster="local:4", replicas=[2, 2]), "batch normalization",
       "of 2 samples", "sync_batch_norm=True with micro_batches=1")
warned("several batch normalizations", lambda: train(Normalized(lambda size: nn.Sequential(nn.BatchNorm1d(size), nn.BatchNorm1d(size)))),
       "batch normalization", "of 4 samples")
warned("batch normalization of a stage with replicas",
       lambda: train(Normalized(), cluster="local:3", replicas=[2, 1], micro_batches=1), "of 4 samples in a stage of 2 replicas")
warned("synchronised batch normalization of micro-batches",
       lambda: train(Normalized(), cluster="local:4", replicas=[2, 2], sync_batch_norm=True), "of 4 samples", ": micro_batches=1")
warned("statistics of instance normalization", lambda: train(instance_normalized()), "norm.running_mean",
       "keeps its value")
warned("len() of the samples", lambda: train(loss=paired, micro_batches=None), "python_wrong_uses_test.py:", "x.shape[0]")
warned("pairs of samples: nothing overlaps", lambda: train(loss=paired, micro_batches=None), "nothing overlaps")

warned("entry of a tuple that nothing reads", unread, "entry 1", "inputs=2")


def with_largest(net, x):
    made = net.layer(x)
    return made, made.max()


def by_samples(net, x):
    made = net.layer(x)
    return made, made / x.shape[0]


warned("output that combines samples", lambda: train(Forward(with_largest), loss=lambda out, batch: loss(out[0], batch)),
       "evaluations do not return all outputs", "output output_1 is excluded")
warned("outputs by the number of samples", lambda: train(Forward(by_samples), loss=lambda out, batch: loss(out[0], batch)),
       "evaluations do not return all outputs", "outputs output_0, output_1 are excluded")


def saved_by_two_runs():
    with tempfile.TemporaryDirectory() as folder:
        for steps in (2, 1):
            with trainer() as opened:
                for _ in range(steps):
                    opened.step(data()).item()
                    opened.save(folder)


warned("folder of another run", saved_by_two_runs, "has a checkpoint of another run after 2 steps", "this one has done 1")


class WrongUses(unittest.TestCase):
    def assert_said(self, text, words, name):
        for word in words:
            self.assertTrue(any(each in text for each in word.split("|")), f"{name}: {text!r} lacks {word!r}")

    def test_errors_name_place_and_remedy(self):
        for name, use, words in WRONG:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.assertRaises(rannc.Error) as caught:
                    use()
                text = str(caught.exception)
                SAID.append((name, text))
                self.assert_said(text, words, name)
                self.assertNotIn("/rannc-", text.split("expected")[0], name)  # temporary files
                self.assertNotIn(" --", text, name)  # flags of programs
                self.assertEqual("momentum that was 0" in text, name == "momentum later", name)

    def test_warnings_name_the_line_of_the_user(self):
        for name, use, words in WARNED:
            with self.subTest(name), warnings.catch_warnings(record=True) as issued:
                warnings.simplefilter("always")
                use()
                found = [each for each in issued if issubclass(each.category, rannc.Warning)]
                matching = [each for each in found if all(word in str(each.message) for word in words)]
                self.assertTrue(matching, f"{name}: {[str(each.message) for each in found]}")
                SAID.append((name, str(matching[0].message)))
                self.assertEqual(os.path.basename(matching[0].filename), os.path.basename(__file__), name)

    @classmethod
    def tearDownClass(cls):
        print("use | what is said\n--- | ---")
        for name, text in SAID:
            print(name, "|", " ".join(text.split())[:300])


class Harmless(unittest.TestCase):
    """What looks wrong and computes what PyTorch does."""

    def expected(self, steps=2, loss_of=loss):
        net = mlp()
        optimizer, losses = sgd(net), []
        for _ in range(steps):
            optimizer.zero_grad()
            value = loss_of(net(X), (X, Y))
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    def assert_equal(self, found, wanted):
        for one, other in zip(found, wanted, strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_batches_that_change_after_a_step(self):
        wanted = train()
        with trainer() as opened:
            losses = []
            for _ in range(2):
                x, y = X.clone(), torch.from_numpy(Y.numpy().copy())
                value = opened.step((x, y))
                x.mul_(7)
                y.numpy()[:] = 0
                losses.append(value.item())
        self.assertEqual(losses, wanted)

    def test_strided_negated_and_narrow_tensors(self):
        wanted = train(steps=1)[0]
        grown = X.clone().requires_grad_()
        for x, y in ((X.t().contiguous().t(), Y), (torch._neg_view(-X), Y), (grown, Y), (X, Y.int()), (X, Y.to(torch.uint8)), [X, Y]):
            self.assertEqual(step([x, y] if isinstance(x, list) else (x, y)), wanted)
        with torch.inference_mode():
            self.assertEqual(step((X.clone(), Y.clone())), wanted)

    def test_wrong_batches_leave_the_trainer_usable(self):
        with trainer() as opened:
            for batch in ((X[:3], Y[:3]), (X.double(), Y), (X,), None):
                with self.assertRaises(rannc.Error):
                    opened.step(batch)
            self.assertEqual([opened.step(data()).item() for _ in range(2)], train())

    def test_zero_grad_and_compiled_modules(self):
        net = mlp()
        optimizer = sgd(net)
        with trainer(torch.compile(net), optimizer=optimizer) as opened:
            losses = []
            for _ in range(2):
                losses.append(opened.step(data()).item())
                optimizer.zero_grad()
                net.zero_grad(set_to_none=False)
            opened.to_module(net)
        self.assert_equal(losses, self.expected())

    def losses_of_torch(self, net, loss_of=loss):
        optimizer, losses = sgd(net), []
        for _ in range(2):
            optimizer.zero_grad()
            value = loss_of(net(X), data())
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    def test_modules_that_a_trace_changes(self):
        def dropped(net, x):
            x = net.layer(x)
            return x if torch.rand([]) < 0.0 or torch.rand(1) >= 1 else torch.tanh(x)
        checkpoint = torch.utils.checkpoint.checkpoint
        for name, function in (("own formula", lambda net, x: Silu.apply(net.layer(x))), ("layer drop that is off", dropped),
                               ("vmap", lambda net, x: torch.vmap(net.layer)(x)),
                               ("checkpoint", lambda net, x: checkpoint(net.layer, x.requires_grad_(), use_reentrant=True)),
                               ("checkpoint by hooks", lambda net, x: checkpoint(net.layer, x, use_reentrant=False))):
            with self.subTest(name):
                self.assert_equal(train(Forward(function)), self.losses_of_torch(Forward(function)))
        self.assertNotIn("__lt__", vars(torch.Tensor))
        self.assertIn("torch.autograd.function", torch.autograd.Function.apply.__module__)

    def test_custom_operators_keep_their_gradients(self):
        @torch.library.custom_op("rannc_wrong_uses::rounded", mutates_args=())
        def rounded(x: torch.Tensor) -> torch.Tensor:
            return x.round()

        rounded.register_fake(torch.empty_like)
        rounded.register_autograd(lambda context, gradient: gradient)
        made = rannc.export.export(Forward(lambda net, x: rounded(net.layer(x))), data(), loss=loss)
        self.assertIn("rannc_wrong_uses.rounded", str(made.program.graph))

    def test_losses_that_call_the_module(self):
        def consistent(net):
            return lambda out, batch: loss(out, batch) + (out - net(batch[0] + 0.1)).square().mean()
        net, other = mlp(), mlp()
        self.assert_equal(train(net, loss=consistent(net)), self.losses_of_torch(other, consistent(other)))

    def test_synchronised_batch_normalization(self):
        wanted = self.losses_of_torch(Normalized())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assert_equal(train(Normalized(nn.SyncBatchNorm), cluster="local:4", replicas=[2, 2], micro_batches=1), wanted)

    def test_evaluations_compute_as_eval_does(self):
        net = Normalized()
        net.head = nn.Sequential(nn.Dropout(0.5), net.head)
        evaluating, dropped = copy.deepcopy(net).eval(), Forward(lambda net, x: nn.functional.dropout(net.layer(x), 0.5))
        with trainer(net, micro_batches=1) as opened, trainer(dropped) as other:
            found = [opened.evaluate(data()).loss, other.evaluate(data()).loss]
        self.assert_equal(found, [loss(evaluating(X), data()).item(), loss(dropped.layer(X), data()).item()])

    def test_batches_with_an_entry_named_loss(self):
        def of_entry(out, batch):
            return nn.functional.cross_entropy(out, batch["loss"])
        batch = {"input": X, "loss": Y}
        self.assert_equal([step(batch, example=batch, loss=of_entry)], self.expected(1))

    def test_ctc_losses_with_lengths_in_tensors(self):
        def ctc(out, batch):
            return nn.functional.ctc_loss(nn.functional.log_softmax(out, -1).transpose(0, 1), *batch[1:])
        generator = torch.Generator().manual_seed(1)
        batch = (torch.randn(8, 5, 4, generator=generator), torch.randint(1, 3, (8, 2), generator=generator), torch.full((8,), 5),
                 torch.tensor([1, 2] * 4))
        wanted = ctc(mlp()(batch[0]), batch).item()
        self.assert_equal([step(batch, example=batch, loss=ctc)], [wanted])

    def test_losses_of_pairs(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_equal(train(loss=paired, micro_batches=None), self.expected(loss_of=paired))

    def test_modules_of_an_open_trainer_are_copied_and_saved(self):
        net = mlp()
        with trainer(net) as opened:
            opened.step(data()).item()
            clone = copy.deepcopy(net)
            for each in (net, net.state_dict(), clone):
                torch.save(each, io.BytesIO())
            pickle.dumps(net)
            net.share_memory()
            loss(clone(X), (X, Y)) if all(p.grad is None for p in clone.parameters()) else clone.zero_grad()
            self.assertEqual(opened.step(data()).item(), train()[1])

    def test_schedulers_of_all_kinds(self):
        kinds = torch.optim.lr_scheduler
        for make in (lambda o: kinds.OneCycleLR(o, 0.1, total_steps=10), lambda o: kinds.LambdaLR(o, lambda n: n / 3),
                     lambda o: kinds.CyclicLR(o, 0.01, 0.1, 2), lambda o: kinds.ReduceLROnPlateau(o, patience=0)):
            for late in (False, True):
                found, wanted = self.scheduled(make, True, late), self.scheduled(make, False, late)
                self.assert_equal(found, wanted)

    def scheduled(self, make, ours, late):
        net = mlp()
        optimizer = sgd(net, momentum=0.9)
        scheduler = None if late else make(optimizer)
        opened = trainer(net, optimizer=optimizer) if ours else None
        scheduler = scheduler or make(optimizer)
        losses = []
        for _ in range(6):
            if ours:
                value = opened.step(data())
            else:
                optimizer.zero_grad()
                value = loss(net(X), (X, Y))
                value.backward()
                optimizer.step()
            losses.append(float(value))
            scheduler.step(*[float(value)] if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else [])
        if ours:
            opened.close()
        return losses

    def test_planners_of_papers_warn_of_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for planner in ("gpipe", "gpipe-exact", "gpipe-size"):
                rannc.plan(mlp(), data(), loss=loss, cluster="local:2", costs="analytic", planner=planner, progress=False)

    def test_a_failed_trainer_gives_the_optimizer_back(self):
        net = mlp()
        optimizer = sgd(net)
        for options in (dict(device="tpu"), dict(stages=9), dict(resume="/nowhere")):
            with self.assertRaises(rannc.Error):
                trainer(net, optimizer=optimizer, **options)
            optimizer.step()

    def test_trainers_that_are_dropped_open(self):
        for _ in range(20):
            opened = trainer()
            opened.step(data())
            cycle = [opened]
            cycle.append(cycle)
            del opened, cycle

    def test_errors_of_progress_reach_the_caller(self):
        def fail(kind, text):
            raise ValueError("mine")
        with self.assertRaisesRegex(ValueError, "mine"):
            trainer(progress=fail)

    def test_workers_of_data_loaders(self):
        dataset = torch.utils.data.TensorDataset(*data(32))
        with trainer() as opened:
            for workers in (0, 2):
                losses = [opened.step(batch) for batch in torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=workers)]
                self.assertEqual(len(losses), 4)
                losses[-1].item()

    def test_forks_that_call_a_trainer(self):
        with trainer() as opened:
            opened.step(data()).item()
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    opened.step(data())
                except rannc.Error as failure:
                    os._exit(0 if "forked" in str(failure) else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            opened.step(data()).item()

    def test_long_runs_take_no_memory(self):
        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        with trainer() as opened:
            for _ in range(500):
                opened.step(data())
            opened.steps_done
            before = resident()
            for _ in range(2000):
                opened.step(data())
            opened.steps_done
            self.assertLess(resident() - before, 8 << 20)


WORKER = """
import sys, os
sys.path.insert(0, {folder!r})
import python_wrong_uses_test as uses, rannc, torch
rank, what = int(os.environ["RANK"]), {what!r}
try:
    if what == "raises" and rank == 1: raise ValueError("mine")
    options = dict(uses.TWO); del options["cluster"]
    net = uses.mlp()
    with rannc.Trainer(net, uses.data(), loss=uses.loss, optimizer=uses.sgd(net), timeout=10, **options) as opened:
        for number in range(6):
            x, y = uses.data(seed=number + (rank if what == "differ" else 0))
            if number == 3 and rank == 1 and what == "sizes": x, y = x[:4], y[:4]
            if number == 3 and rank == 1 and what == "killed": os.kill(os.getpid(), 9)
            opened.step((x, y)).item()
    print("ended", rank)
except rannc.Error as failure:
    print("error", rank, str(failure).replace(chr(10), " "))
"""


class Processes(unittest.TestCase):
    def outputs(self, what):
        """What each of two processes prints."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        workers = []
        for rank in range(2):
            names = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            code = WORKER.format(folder=str(pathlib.Path(__file__).parent), what=what)
            workers.append(subprocess.Popen([sys.executable, "-B", "-c", code, str(BIN)], env=names, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            self.addCleanup(workers[-1].kill)
        return [worker.communicate(timeout=programs.HANG_SECONDS)[0] for worker in workers]

    def test_equal_processes(self):
        for rank, text in enumerate(self.outputs("none")):
            self.assertIn(f"ended {rank}", text)

    def test_each_shuffles_alone(self):
        for text in self.outputs("differ"):
            self.assertRegex(text, "error . batch entry 'input': differs between rank 0 and rank 1.*rannc.Sampler")

    def test_one_has_another_size(self):
        first, second = self.outputs("sizes")
        self.assertRegex(second, "has 4 samples; expected 8")
        self.assertRegex(first, "error 0 .*device 1")

    def test_one_is_killed(self):
        self.assertRegex(self.outputs("killed")[0], "error 0 .*worker 1 is gone")


if __name__ == "__main__":
    programs.main()
