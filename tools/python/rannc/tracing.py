"""What `torch.export` does not see or cannot follow in a module, in terms of the user."""
from __future__ import annotations

import logging
import os
import random
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.fx.proxy import TracerBase

from .options import error, warn

_FOLDERS = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))
_LIBRARY = sysconfig.get_path("stdlib") + os.sep  # of Python
_INSTALLED = tuple(os.path.join(_LIBRARY, name) for name in ("site-packages", "dist-packages"))


def is_of_user(filename: str) -> bool:
    """Whether a file is neither Python's, PyTorch's nor this package's."""
    path = os.path.abspath(filename)
    of_python = path.startswith(_LIBRARY) and not path.startswith(_INSTALLED)
    return not of_python and not path.startswith(_FOLDERS) and os.path.exists(filename)


def check_module(net: nn.Module, evaluates: bool) -> None:
    """Refuses modules that a program would compute differently, or that cannot be exported at all."""
    if isinstance(net, torch.jit.ScriptModule):
        raise error("is a module of TorchScript, which is a program already", place="net",
                    hint="net.save('model.pt'), then rannc.compile('model.pt', path=…)")
    if evaluates:
        return
    for name, module in net.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise error("has a hook of its backward pass, which a step would not call", place=name or "net",
                        hint="remove the hook; trainer.gradients() returns gradients")
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is None and module.training:
            raise error("has momentum=None, averages over all steps so far, which a program cannot follow", place=name or "net",
                        hint="momentum=0.1, the default; or .eval(), for fixed statistics")
    for name, parameter in net.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise error("has a hook of its gradient, which a step would not call", place=name,
                        hint="remove the hook; clip_norm= clips gradients, and groups of the optimizer scale rates")
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        warn("torch.autocast is on, which has no effect on a trainer: precision='bf16' or 'fp16' trains in mixed precision")


def _states() -> list[Any]:
    numpy = sys.modules.get("numpy")
    return [random.getstate(), str(numpy.random.get_state()) if numpy is not None else ""]


@contextmanager
def constants_noticed(found: dict[str, None]) -> Iterator[None]:
    """Finds random numbers that are constants of the program, as texts of warnings."""
    states = _states()
    yield
    if _states() != states:
        found.setdefault("forward or loss calls random numbers of Python or NumPy, which are constants of the program: the same "
                         "in every step; torch.rand and others of torch are random in each")


class _Uniform:
    """Results of `torch.rand` with one element, and comparisons of them with a number, while a module is traced."""

    _METHODS = ("__lt__", "__le__", "__gt__", "__ge__", "lt", "le", "gt", "ge", "__bool__")

    def __init__(self, where: Callable[[], str]):
        self._where = where
        self._numbers: dict[int, torch.Tensor] = {}  # by identity; kept, so that no other tensor has it
        self._choices: dict[int, torch.Tensor] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        rand = torch.rand

        def watched_rand(*arguments: Any, **named: Any) -> torch.Tensor:
            made = rand(*arguments, **named)
            if made.ndim == 0 or all(type(size) is int and size == 1 for size in made.shape):
                if not self._numbers:
                    for name in self._METHODS:
                        setattr(torch.Tensor, name, self._method(name))
                self._numbers[id(made)] = made
            return made

        setattr(torch, "rand", watched_rand)
        try:
            yield
        finally:
            setattr(torch, "rand", rand)
            if self._numbers:
                for name in self._METHODS:
                    delattr(torch.Tensor, name)  # those of its base are back

    def _method(self, name: str) -> Any:
        original = getattr(torch.Tensor, name)
        if name == "__bool__":
            def decide(tensor: torch.Tensor) -> bool:
                if id(tensor) in self._choices:
                    raise error(f"{self._where()} decides by a random number, as layer drop does, which a program cannot follow",
                                place=innermost_line(), hint="set its probability to 0, such as layerdrop=0 of a configuration")
                return bool(original(tensor))
            return decide

        def compare(tensor: torch.Tensor, other: Any, *more: Any, **named: Any) -> Any:
            if id(tensor) not in self._numbers or not isinstance(other, (int, float)):
                return original(tensor, other, *more, **named)
            known = _is_certain(name.strip("_"), float(other))
            if known is not None:
                return known
            made = original(tensor, other, *more, **named)
            self._choices[id(made)] = made
            return made
        return compare


def _is_certain(comparison: str, bound: float) -> bool | None:
    """What the comparison of any number from 0 to less than 1 with a bound is; None if it depends on the number."""
    if comparison in ("lt", "ge"):
        below = False if bound <= 0 else True if bound >= 1 else None
    else:
        below = False if bound < 0 else True if bound >= 1 else None
    return None if below is None else below == (comparison in ("lt", "le"))


@contextmanager
def layer_drop_followed(where: Callable[[], str]) -> Iterator[None]:
    """Decides comparisons of a uniform random number with a probability of 0 or 1, as of layer drop that is off: in training mode,
    `torch.rand([]) < self.layerdrop` is the condition of a branch. Other probabilities are an error at the branch.

    where: what runs, for errors
    """
    with _Uniform(where).watched():
        yield


@contextmanager
def kernels_of_known_shapes() -> Iterator[None]:
    """Gives `ctc_loss` with lengths in tensors the shape of its result, which does not depend on their numbers. That of a table
    for its backward pass, which no program reads, does."""
    from torch._subclasses import fake_impls
    kernel = torch.ops.aten._ctc_loss.Tensor

    def result_of(_: Any, __: Any, log_probabilities: torch.Tensor, targets: torch.Tensor, *___: Any, **____: Any) -> Any:
        steps, samples = log_probabilities.shape[:2]
        return log_probabilities.new_empty(samples), log_probabilities.new_empty(samples, steps, 2 * targets.shape[-1] + 1)

    known = fake_impls.op_implementations_dict
    if kernel in known:
        yield
        return
    known[kernel] = result_of
    try:
        yield
    finally:
        del known[kernel]


@contextmanager
def new_buffers_hidden(net: nn.Module) -> Iterator[None]:
    """Hides buffers that forward registers in the module itself from `torch.export`, which has no input for them and would write
    them into another one."""
    known, hooks = set(net._buffers), nn.modules.module._global_buffer_registration_hooks
    before = dict(hooks)

    def hiding(hook: Any) -> Any:
        return lambda module, name, buffer: hook(module, name, buffer) if module is not net or name in known else None

    hooks.update({key: hiding(hook) for key, hook in before.items()})
    try:
        yield
    finally:
        hooks.update(before)


def warn_of_buffers(program: torch.export.ExportedProgram) -> None:
    """Warns of counters that forward writes, and of statistics of instance normalization. The importer warns of buffers of
    floats that no output depends on, and refuses others."""
    buffers = program.graph_signature.inputs_to_buffers
    written = list(program.graph_signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        writes = node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        if writes and node.args:
            written.append(buffers.get(getattr(node.args[0], "name", ""), ""))
    tensors = {**program.state_dict, **program.constants}
    found = dict.fromkeys(name for name in written if name and not name.endswith("num_batches_tracked")
                          and not tensors[name].is_floating_point())
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.instance_norm.default and node.args[3] is not None and node.args[5]:
            found.setdefault(buffers.get(str(node.args[3]), "running_mean of an instance normalization"))
    for name in found:
        warn(f"{name}: forward writes this buffer, which a trainer does not: it keeps its value")


def counters_of(program: torch.export.ExportedProgram) -> dict[str, int]:
    """How often a call of a module counts each of its mini-batches of batch normalization, by the name of the counter."""
    buffers = program.graph_signature.inputs_to_buffers
    counted: dict[fx.Node, str] = {}  # counters, and what is added to them
    found: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and buffers.get(node.name, "").endswith("num_batches_tracked"):
            counted[node] = buffers[node.name]
        elif node.target in (torch.ops.aten.add_.Tensor, torch.ops.aten.add.Tensor) and node.args[0] in counted:
            counted[node] = counted[node.args[0]]
            found[counted[node]] = found.get(counted[node], 0) + 1
    return found


@contextmanager
def lines_of_user() -> Iterator[None]:
    """Lets the nodes of a program name the lines of the user, also in functions that are not called `forward`."""
    original = TracerBase._filter_traceback_frames
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level

    def filtered(_: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        own = [frame for frame in frames if is_of_user(frame.filename) or
               (frame.name == "forward" and not frame.filename.startswith(_FOLDERS[0]))]
        return traceback.StackSummary.from_list(own[-20:])

    setattr(TracerBase, "_filter_traceback_frames", filtered)
    log.setLevel(logging.ERROR)  # it prints the graph, beside the error
    try:
        yield
    finally:
        setattr(TracerBase, "_filter_traceback_frames", original)
        log.setLevel(level)


def innermost_line() -> str:
    """The line of the user that runs."""
    for frame in reversed(traceback.extract_stack()):
        if is_of_user(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def line_of_user(failure: BaseException) -> str:
    """The innermost line of the user, where the module or loss is at fault."""
    named = re.search(r'The following call raised this error:\n  File "([^"]+)", line (\d+)', str(failure))
    if named and is_of_user(named[1]):
        return f"{named[1]}:{named[2]}"
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if is_of_user(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def line_of_node(node: fx.Node) -> str:
    """The innermost line of the user that has made a node."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.stack_trace or "")
    return next((f"{file}:{line}" for file, line in reversed(lines) if is_of_user(file)), "")


def line_of_length(net: nn.Module, run: Any) -> str:
    """The line that makes the number of samples a number of Python, by `len()` or a loop; empty if there is none. Runs without
    numbers, so that neither tensors nor random numbers of the user change."""
    from torch._subclasses import FakeTensorMode
    from torch.nn.utils.stateless import _reparametrize_module
    from torch.overrides import TorchFunctionMode
    found: list[str] = []

    class Finder(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            if getattr(function, "__name__", "") in ("__len__", "__iter__", "unbind", "tolist") and not found:
                found.extend(line for line in [innermost_line()] if line)
            return function(*arguments, **(named or {}))

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        buffers = {name: mode.from_tensor(buffer) for name, buffer in net.named_buffers()}
        with Finder(), torch.no_grad(), mode, _reparametrize_module(net, buffers):
            run()
    except Exception:  # only the line counts
        pass
    return found[0] if found else ""


def is_of_samples(failure: BaseException) -> bool:
    """Whether an export failed only since it needs a certain number of samples, or may have: some kernels take no symbol."""
    text = str(failure)
    return text.startswith("Constraints violated (batch)!") or "on tensor with symbolic sizes/strides" in text


def error_of(failure: BaseException, what: str, net: nn.Module) -> Exception:
    """A failure of `torch.export` in plain words; PyTorch's own are in the exception that it is raised from."""
    text, place = str(failure), line_of_user(failure)
    anywhere = what.replace("the loss function", "the module or the loss function")  # what shows after both have run
    if ("data-dependent expression" in text or "data dependent" in text.lower()
            or type(failure).__name__ == "DataDependentOutputException"):
        return error(f"{what} decides by the numbers of a tensor, as by `if`, a loop or a slice, which a program cannot follow",
                     place=place, hint="torch.where selects by numbers; sizes may decide, numbers not")
    if ".numpy() is not supported" in text:
        return error(f"{what} makes a NumPy array of a tensor, which a program cannot follow", place=place,
                     hint="functions of torch compute the same")
    if text.startswith("Constraints violated"):
        names = re.search(r"\(([^)]*)\)", text)
        sizes = re.search(r"Suggested fixes:\n((?:  .*\n?)+)", text)
        fixes = "; ".join(line.strip() for line in sizes[1].splitlines()) if sizes else ""
        layer = next((type(each).__name__ for each in net.modules() if isinstance(each, nn.RNNBase)), "")
        return error(f"{anywhere} does not work for all sizes of dynamic= or batch_axis= ({names[1] if names else ''}); it needs "
                     f"{fixes or 'certain ones'}{f'; torch.export unrolls nn.{layer} for one length of sequences' if layer else ''}",
                     place=place, hint="pad sequences to one length, and leave it out of dynamic=" if layer else "")
    if "fake tensor in the exported program constant's list" in text:
        return error(f"{anywhere} reads a tensor beside the program, as "
                     "`x.data` of an activation does", hint="x.detach() instead of x.data")
    if "two different devices" in text:
        return error(f"{what} has tensors on several devices: {text.splitlines()[0]}", place=place,
                     hint="net.to('cpu'), and the example and all tensors that forward makes on the device of its inputs")
    first = text.split("\n\nThe error above occurred")[0].split("\nException raised from")[0].strip()
    return error(f"{what} raised {type(failure).__name__}: {first}", place=place)
