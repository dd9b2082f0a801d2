"""What `torch.export` does not see or cannot follow in a module, in terms of the user."""
from __future__ import annotations

import logging
import os
import random
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.fx.proxy import TracerBase

from .options import error, warn

_FOLDERS = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))


def is_of_user(filename: str) -> bool:
    """Whether a file is neither PyTorch's nor this package's."""
    return not os.path.abspath(filename).startswith(_FOLDERS) and os.path.exists(filename)


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
    for name, parameter in net.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise error("has a hook of its gradient, which a step would not call", place=name,
                        hint="remove the hook; clip_norm= clips gradients, and groups of the optimizer scale rates")
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        warn("torch.autocast is on, which has no effect on a trainer: precision='bf16' or 'fp16' trains in mixed precision")


def _numbers_of(net: nn.Module) -> dict[tuple[str, str], Any]:
    return {(name, key): value for name, module in net.named_modules() for key, value in vars(module).items()
            if isinstance(value, (bool, int, float, str)) and key != "training"}


def _states() -> list[Any]:
    numpy = sys.modules.get("numpy")
    return [random.getstate(), str(numpy.random.get_state()) if numpy is not None else ""]


@contextmanager
def constants_noticed(net: nn.Module, found: dict[str, None]) -> Iterator[None]:
    """Finds numbers that are constants of the program, while they differ in each call of the module, as texts of warnings.
    What the trace changes in the module is restored."""
    modules = dict(net.named_modules())
    before, states = _numbers_of(net), _states()
    yield
    if _states() != states:
        found.setdefault("forward or loss calls random numbers of Python or NumPy, which are constants of the program: the same "
                         "in every step; torch.rand and others of torch are random in each")
    for (name, key), value in _numbers_of(net).items():
        known = before.get((name, key))
        if (name, key) in before and known != value:
            place = f"{name}.{key}" if name else key
            found.setdefault(f"{place}: forward changes this attribute ({known!r} became {value!r}), which is a constant of the "
                             "program: each step computes as the first call")
            setattr(modules[name], key, known)


def warn_of_buffers(program: torch.export.ExportedProgram) -> None:
    """Warns of buffers that forward writes, beside the statistics of batch normalization."""
    found: dict[str, None] = {}
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        writes = node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        name = buffers.get(getattr(node.args[0], "name", ""), "") if writes and node.args else ""
        if name and not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            found.setdefault(name)
    for name in found:
        warn(f"{name}: forward writes this buffer, which a trainer does not: it keeps its value")


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


def line_of_user(failure: BaseException) -> str:
    """The innermost line of the user, where the module or loss is at fault."""
    named = re.search(r'The following call raised this error:\n  File "([^"]+)", line (\d+)', str(failure))
    if named:
        return f"{named[1]}:{named[2]}"
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if is_of_user(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def line_of_length(net: nn.Module, run: Any) -> str:
    """The line that makes the number of samples a number of Python, by `len()` or a loop; empty if there is none."""
    from torch.overrides import TorchFunctionMode
    found: list[str] = []

    class Finder(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            if getattr(function, "__name__", "") in ("__len__", "__iter__", "unbind", "tolist") and not found:
                for frame in reversed(traceback.extract_stack()):
                    if is_of_user(frame.filename):
                        found.append(f"{frame.filename}:{frame.lineno}")
                        break
            return function(*arguments, **(named or {}))

    try:
        with Finder(), torch.no_grad():
            run()
    except Exception:  # only the line counts
        pass
    return found[0] if found else ""


def is_of_samples(failure: BaseException) -> bool:
    """Whether an export failed only since it needs a certain number of samples."""
    text = str(failure)
    return text.startswith("Constraints violated (batch)!")


def error_of(failure: BaseException, what: str) -> Exception:
    """A failure of `torch.export` in plain words; PyTorch's own are in the exception that it is raised from."""
    text, place = str(failure), line_of_user(failure)
    if "data-dependent expression" in text or "data dependent" in text.lower():
        return error(f"{what} decides by the numbers of a tensor, as by `if`, a loop or a slice, which a program cannot follow",
                     place=place, hint="torch.where selects by numbers; sizes may decide, numbers not")
    if ".numpy() is not supported" in text:
        return error(f"{what} makes a NumPy array of a tensor, which a program cannot follow", place=place,
                     hint="functions of torch compute the same")
    if text.startswith("Constraints violated"):
        names = re.search(r"\(([^)]*)\)", text)
        sizes = re.search(r"Suggested fixes:\n((?:  .*\n?)+)", text)
        fixes = "; ".join(line.strip() for line in sizes[1].splitlines()) if sizes else ""
        return error(f"{what} does not work for all sizes of dynamic= or batch_axis= ({names[1] if names else ''}); it needs "
                     f"{fixes or 'certain ones'}", place=place)
    if "two different devices" in text:
        return error(f"{what} has tensors on several devices: {text.splitlines()[0]}", place=place,
                     hint="net.to('cpu'), and the example and all tensors that forward makes on the device of its inputs")
    first = text.split("\n\nThe error above occurred")[0].strip()
    return error(f"{what} raised {type(failure).__name__}: {first}", place=place)
