"""Modules with parameters in a loss, which are trained with those of the module."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from .options import error, warn


def parameters_in(optimizer: Any) -> frozenset[int] | None:
    """Identities of what an optimizer of the user, or a list of such, trains. None: it is named, and trains everything."""
    if optimizer is None or isinstance(optimizer, str):
        return None
    several = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
    return frozenset(id(parameter) for each in several if isinstance(each, Optimizer)
                     for group in each.param_groups for parameter in group["params"])


def modules_in_loss(net: nn.Module, loss: Any, optimizer: Any) -> dict[str, nn.Module]:
    """Modules of a loss that an optimizer trains, by the names that they get in the module: a loss that is a module is
    `loss`, and one that a function reads has the name of its variable. A named optimizer trains a loss that is a module."""
    trained = parameters_in(optimizer)
    known = {id(parameter) for parameter in net.parameters()}
    own = getattr(loss, "__self__", loss)
    found: dict[str, nn.Module] = {}
    for name, module in [("loss", own)] if isinstance(own, nn.Module) else modules_read(loss):
        ids = {id(each) for each in module.parameters()} - known
        if not ids or not _are_trained(ids, trained, module is own):
            continue
        if any(each is net for each in module.modules()):
            raise error(f"{type(module).__name__} has the module in it, and parameters beside", place="loss",
                        hint="make it the module, which returns its loss")
        while hasattr(net, name) or name in found:
            name += "_"
        found[name] = module
        known |= ids
    return found


def warn_of_constants(net: nn.Module, reached: Iterable[tuple[str, torch.Tensor]], constants: Iterable[torch.Tensor]) -> None:
    """Warns of constants of a program that are parameters beside the module: they may be trained in PyTorch, or be teachers.

    reached: tensors that the module and the loss reach, with their places
    """
    known = {id(parameter) for parameter in net.parameters()}
    places = {each.data_ptr() for each in constants}
    found = [place for place, each in reached
             if isinstance(each, nn.Parameter) and each.requires_grad and id(each) not in known and each.data_ptr() in places]
    if found:
        warn(f"{found[0]}{f' and {len(found) - 1} more' if found[1:] else ''}: parameters beside those of the module stay as they "
             "are. An object of torch.optim trains those of a loss that is a module, or reads one by the name of a variable; "
             "requires_grad_(False) says that they are constant")


def _are_trained(ids: Collection[int], trained: frozenset[int] | None, is_loss: bool) -> bool:
    return is_loss if trained is None else not trained.isdisjoint(ids)


def modules_read(function: Any) -> Iterator[tuple[str, nn.Module]]:
    """Modules among the variables that a function reads, and in its defaults, by name."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    variables: dict[str, Any] = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    defaults = function.__defaults__ or ()
    variables.update(zip(code.co_varnames[code.co_argcount - len(defaults):code.co_argcount], defaults, strict=True))
    variables.update(function.__kwdefaults__ or {})
    yield from ((name, value) for name, value in variables.items() if isinstance(value, nn.Module))


@contextmanager
def within(net: nn.Module, modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """Makes modules parts of another one."""
    net._modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del net._modules[name]


@contextmanager
def without(net: nn.Module, modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """Takes modules that are `within` another one out of it, while code of the user runs."""
    for name in modules:
        del net._modules[name]
    try:
        yield
    finally:
        net._modules.update(modules)
