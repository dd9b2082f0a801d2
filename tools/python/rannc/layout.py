"""Batches of the user as named inputs of a program."""
from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .options import error

Batch = Mapping[str, torch.Tensor] | Sequence[torch.Tensor] | torch.Tensor
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a batch of the user becomes the named inputs of a program."""
    kind: str  #: `mapping`, `sequence` or `tensor`
    keys: tuple[Any, ...]  #: of the entries, in order
    names: tuple[str, ...]  #: of the inputs, in the same order
    ignores_others: bool = False  #: as of a bundle, which does not know what else its example had

    def tensors(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Returns the tensors of a batch by input. A batch of another form is an error."""
        return dict(zip(self.names, _entries(batch, self), strict=True))

    def rebuilt(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Returns tensors in the form that the loss expects: a dictionary, a tuple or one tensor."""
        if self.kind == "mapping":
            return dict(zip(self.keys, tensors, strict=True))
        return tuple(tensors) if self.kind == "sequence" else tensors[0]


def _entries(batch: Batch, layout: Layout) -> list[torch.Tensor]:
    found: list[Any]
    if layout.kind == "mapping":
        if not isinstance(batch, Mapping):
            raise error(f"the batch is a {type(batch).__name__}; expected a dictionary with {listed(layout.keys)}")
        lacking = [key for key in layout.keys if batch.get(key) is None]
        if lacking:
            raise error(f"the batch lacks {listed(lacking)}; it has {listed(batch)}")
        check_known(batch, layout)
        found = [batch[key] for key in layout.keys]
    elif layout.kind == "sequence":
        if not isinstance(batch, Sequence) or isinstance(batch, str) or len(batch) != len(layout.keys):
            size = f" of {len(batch)}" if isinstance(batch, Sequence) else ""
            raise error(f"the batch is a {type(batch).__name__}{size}; expected a tuple of {len(layout.keys)} tensors")
        found = list(batch)
    else:
        found = [batch]
    for name, tensor in zip(layout.names, found, strict=True):
        if not isinstance(tensor, torch.Tensor):
            raise error(f"is a {type(tensor).__name__}; expected a tensor", place=f"batch entry {name!r}")
    return found


def check_known(batch: Mapping[Any, Any], layout: Layout) -> None:
    """Refuses entries that the example lacked: forward or loss may take them, which the program does not."""
    unknown = [key for key, value in batch.items() if value is not None and key not in layout.keys]
    if unknown and not layout.ignores_others:
        raise error(f"the batch has {listed(unknown)}, which the example lacked, so that the program has no input for it",
                    hint="put it into the example, too, or leave it out of the batch")


def listed(names: Any) -> str:
    """Names as a text for messages."""
    return ", ".join(repr(name) for name in names) or "nothing"


def identifier(text: str, taken: Sequence[str]) -> str:
    """An identifier like a text that is not among those taken."""
    name = re.sub(r"\W", "_", str(text))
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"input_{name}"
    while name in taken:
        name += "_"
    return name


def layout_of(example: Batch, net: nn.Module) -> Layout:
    """The layout of batches like an example. Inputs are named by keys, or by the parameters of `forward`."""
    keys: tuple[Any, ...]
    wanted: list[str]
    if isinstance(example, torch.Tensor):
        kind, keys, wanted = "tensor", (0,), _positional(net)[:1] or ["input"]
    elif isinstance(example, Mapping):
        kind = "mapping"
        keys = tuple(key for key, value in example.items() if value is not None)
        wanted = list(keys)
    elif isinstance(example, Sequence) and not isinstance(example, str):
        kind, keys = "sequence", tuple(range(len(example)))
        parameters = _positional(net)
        wanted = [parameters[i] if i < len(parameters) else "labels" if i == len(example) - 1 else f"labels{i}"
                  for i in keys]
    else:
        raise error(f"is a {type(example).__name__}; expected a tensor, or a dictionary or tuple of tensors",
                    place="example")
    if not keys:
        raise error("is empty", place="example")
    names: list[str] = []
    for name in wanted:
        names.append(identifier(name, names))
    layout = Layout(kind, keys, tuple(names))
    _entries(example, layout)
    return layout


def _parameters_of_forward(net: nn.Module) -> list[inspect.Parameter]:
    return list(inspect.signature(net.forward).parameters.values())


def _positional(net: nn.Module) -> list[str]:
    return [each.name for each in _parameters_of_forward(net) if each.kind in _BY_PLACE]


def taken_of(net: nn.Module, layout: Layout, has_loss: bool, inputs: Any) -> list[Any]:
    """Keys of the entries that the module takes; the others are for the loss."""
    if layout.kind == "tensor":
        return [0]
    if inputs is not None:
        if not isinstance(inputs, (int, Sequence)) or isinstance(inputs, str):
            raise error(f"is {inputs!r}; expected keys of the batch, or a number of leading entries", place="inputs")
        wanted = list(range(inputs)) if isinstance(inputs, int) else list(inputs)
        unknown = [key for key in wanted if key not in layout.keys]
        if unknown:
            raise error(f"the batch has no {listed(unknown)}; it has {listed(layout.keys)}", place="inputs")
        if layout.kind == "mapping":
            _check_keys(wanted)
        return wanted
    parameters = _parameters_of_forward(net)
    if layout.kind == "sequence":
        return _taken_in_order(parameters, layout, has_loss)
    any_key = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    names = {each.name for each in parameters}
    taken = [key for key in layout.keys if any_key or key in names]
    _check_keys(taken)
    required = [each.name for each in parameters
                if each.default is inspect.Parameter.empty and each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    lacking = [name for name in required if name not in taken]
    if lacking:
        raise error(f"lacks {listed(lacking)}, which forward of {type(net).__name__} requires; it has "
                    f"{listed(layout.keys)}", place="example")
    return taken


def _check_keys(keys: Sequence[Any]) -> None:
    for key in keys:
        if not isinstance(key, str):
            raise error(f"the key {key!r} is no text, so that forward cannot take it by name", place="example",
                        hint="use a tuple, or keys that are the names of forward's parameters")


def _taken_in_order(parameters: list[inspect.Parameter], layout: Layout, has_loss: bool) -> list[Any]:
    if not has_loss:
        return _all_in_order(parameters, layout)
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        raise error("forward takes *args: specify how many entries of the batch it takes",
                    hint="such as inputs=1, if the others are labels")
    required = [each for each in parameters if each.default is inspect.Parameter.empty
                and each.kind is not inspect.Parameter.VAR_KEYWORD]
    by_key = [each.name for each in required if each.kind is inspect.Parameter.KEYWORD_ONLY]
    if by_key:
        raise error(f"is a tuple; forward requires {listed(by_key)} by keyword: use a dictionary", place="example")
    if len(required) > len(layout.keys):
        raise error(f"has {len(layout.keys)} entries; forward requires {listed(each.name for each in required)}",
                    place="example")
    return list(layout.keys[:len(required)])


def _all_in_order(parameters: list[inspect.Parameter], layout: Layout) -> list[Any]:
    """All entries of a batch whose loss the module returns, or that is evaluated."""
    by_place = [each.name for each in parameters if each.kind in _BY_PLACE]
    if len(by_place) < len(layout.keys) and all(each.kind is not inspect.Parameter.VAR_POSITIONAL for each in parameters):
        raise error(f"has {len(layout.keys)} entries; forward takes {listed(by_place)}", place="example",
                    hint="loss=, a function of outputs and batch, reads labels; inputs= numbers the entries of the module")
    return list(layout.keys)


def axes_of(tensors: dict[str, torch.Tensor], layout: Layout, batch_axis: Any) -> dict[str, int | None]:
    """The axis of each input that counts the samples."""
    by_name = {}
    if isinstance(batch_axis, Mapping):
        unknown = [key for key in batch_axis if key not in layout.keys]
        if unknown:
            raise error(f"the batch has no {listed(unknown)}; it has {listed(layout.keys)}", place="batch_axis")
    for key, name in zip(layout.keys, layout.names, strict=True):
        axis = batch_axis.get(key, 0) if isinstance(batch_axis, Mapping) else batch_axis
        if axis is not None and not isinstance(axis, int):
            raise error(f"is {axis!r}; expected the number of an axis, or a dictionary of such", place="batch_axis")
        rank = tensors[name].ndim
        if isinstance(batch_axis, Mapping) and key in batch_axis and axis is not None and not -rank <= axis < rank:
            raise error(f"is {axis} for {key!r}, which has {rank} axes", place="batch_axis")
        by_name[name] = axis % rank if axis is not None and -rank <= axis < rank else None
    return by_name


def samples_of(tensors: dict[str, torch.Tensor], axes: dict[str, int | None]) -> int:
    """The number of samples of an example, which has to be two or more and equal in all entries."""
    counts = {name: tensors[name].shape[axis] for name, axis in axes.items() if axis is not None}
    if not counts:
        raise error("no tensor has an axis of samples", place="example", hint="specify batch_axis=")
    samples = next(iter(counts.values()))
    if samples < 2:
        raise error(f"has {samples} sample; two or more are needed to see which sizes follow the number of samples",
                    place="example")
    other = [f"{name!r} has {count}" for name, count in counts.items() if count != samples]
    if other:
        raise error(f"{next(iter(counts))!r} has {samples} samples, but {', '.join(other)}", place="example",
                    hint="an entry without samples is batch_axis={'name': None}")
    return samples
