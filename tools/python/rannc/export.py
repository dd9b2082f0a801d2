"""A module and its loss as a program of `torch.export`."""
from __future__ import annotations

import dataclasses
import inspect
import keyword
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .options import Warning, error

Batch = Mapping[str, torch.Tensor] | Sequence[torch.Tensor] | torch.Tensor
LossFunction = Callable[[Any, Any], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a batch of the user becomes the named inputs of a program."""
    kind: str  #: `mapping`, `sequence` or `tensor`
    keys: tuple[Any, ...]  #: of the entries, in order
    names: tuple[str, ...]  #: of the inputs, in the same order

    def tensors(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Returns the tensors of a batch by input. A batch of another form is an error."""
        return dict(zip(self.names, _entries(batch, self), strict=True))

    def rebuilt(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Returns tensors in the form that the loss expects: a dictionary, a tuple or one tensor."""
        if self.kind == "mapping":
            return dict(zip(self.keys, tensors, strict=True))
        return tuple(tensors) if self.kind == "sequence" else tensors[0]


@dataclasses.dataclass(frozen=True)
class Exported:
    """A program whose first output is the loss, if it has one."""
    program: torch.export.ExportedProgram
    layout: Layout
    samples: int  #: of the example
    outputs: tuple[str, ...]  #: names, in order; `loss` first
    has_loss: bool
    parameters: dict[int, list[str]]  #: names of a parameter, by `id`
    sizes: dict[str, int]  #: other symbols, with their sizes in the example

    def save(self, path: str, with_weights: bool) -> None:
        """Writes the program. Without weights, its tensors are on the meta device and take no space."""
        if not with_weights:
            state = self.program.state_dict
            for name, tensor in state.items():
                meta = tensor.detach().to("meta")
                is_parameter = isinstance(tensor, nn.Parameter)
                state[name] = nn.Parameter(meta, tensor.requires_grad) if is_parameter else meta
        torch.export.save(self.program, path)


def names_of_parameters(net: nn.Module) -> dict[int, list[str]]:
    """All names of each parameter, by its `id`; a tied one has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in net.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return names


def unwrapped(net: nn.Module) -> nn.Module:
    """The module itself, without the wrapper of `torch.compile`."""
    inner = getattr(net, "_orig_mod", net)
    return inner if isinstance(inner, nn.Module) else net


def _entries(batch: Batch, layout: Layout) -> list[torch.Tensor]:
    found: list[Any]
    if layout.kind == "mapping":
        if not isinstance(batch, Mapping):
            raise error(f"the batch is a {type(batch).__name__}; expected a dictionary with {_listed(layout.keys)}")
        lacking = [key for key in layout.keys if batch.get(key) is None]
        if lacking:
            raise error(f"the batch lacks {_listed(lacking)}; it has {_listed(batch)}")
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


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"


def _identifier(text: str, taken: Sequence[str]) -> str:
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
        names.append(_identifier(name, names))
    layout = Layout(kind, keys, tuple(names))
    _entries(example, layout)
    return layout


def _parameters_of_forward(net: nn.Module) -> list[inspect.Parameter]:
    return list(inspect.signature(net.forward).parameters.values())


def _positional(net: nn.Module) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in _parameters_of_forward(net) if each.kind in kinds]


def _taken(net: nn.Module, layout: Layout, has_loss: bool, inputs: Any) -> list[Any]:
    """Keys of the entries that the module takes; the others are for the loss."""
    if layout.kind == "tensor":
        return [0]
    if inputs is not None:
        wanted = list(range(inputs)) if isinstance(inputs, int) else list(inputs)
        unknown = [key for key in wanted if key not in layout.keys]
        if unknown:
            raise error(f"the batch has no {_listed(unknown)}; it has {_listed(layout.keys)}", place="inputs")
        return wanted
    parameters = _parameters_of_forward(net)
    if layout.kind == "sequence":
        return _taken_in_order(parameters, layout, has_loss)
    any_key = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    names = {each.name for each in parameters}
    taken = [key for key in layout.keys if any_key or key in names]
    required = [each.name for each in parameters
                if each.default is inspect.Parameter.empty and each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    lacking = [name for name in required if name not in taken]
    if lacking:
        raise error(f"lacks {_listed(lacking)}, which forward of {type(net).__name__} requires; it has "
                    f"{_listed(layout.keys)}", place="example")
    return taken


def _taken_in_order(parameters: list[inspect.Parameter], layout: Layout, has_loss: bool) -> list[Any]:
    if not has_loss:
        return list(layout.keys)
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        raise error("forward takes *args: specify how many entries of the batch it takes",
                    hint="such as inputs=1, if the others are labels")
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    if len(required) > len(layout.keys):
        raise error(f"has {len(layout.keys)} entries; forward requires {_listed(each.name for each in required)}",
                    place="example")
    return list(layout.keys[:len(required)])


def _loss_of(outputs: Any) -> torch.Tensor | None:
    """The loss that a module returns: a scalar, its output `loss`, or the first of its outputs if that is a scalar."""
    if isinstance(outputs, torch.Tensor):
        return outputs if outputs.ndim == 0 else None
    if isinstance(outputs, Mapping) or hasattr(outputs, "loss"):
        loss: torch.Tensor | None = outputs.get("loss") if isinstance(outputs, Mapping) else outputs.loss
        return loss
    first = outputs[0] if isinstance(outputs, Sequence) and outputs else None
    return first if isinstance(first, torch.Tensor) and first.ndim == 0 else None


def _named_outputs(outputs: Any) -> dict[str, torch.Tensor]:
    """All tensors of a module's outputs, by the keys or positions at which they are."""
    leaves, _ = torch.utils._pytree.tree_flatten_with_path(outputs)
    named: dict[str, torch.Tensor] = {}
    for path, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
            named[_identifier("_".join(parts) if parts and not parts[0].isdigit() else "_".join(["output", *parts]),
                              list(named))] = leaf
    return named


class _Recorder:
    """Replaces `forward` of the module during the export."""

    def __init__(self, net: nn.Module, layout: Layout, taken: list[Any], loss: LossFunction | None, evaluates: bool):
        self.forward, self.layout, self.taken, self.loss, self.evaluates = net.forward, layout, taken, loss, evaluates
        self.outputs: tuple[str, ...] = ()
        self.has_loss = False

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        by_key = dict(zip(self.layout.keys, tensors, strict=True))
        arguments = {key: by_key[key] for key in self.taken}
        if self.layout.kind == "mapping":
            outputs = self.forward(**arguments)
        else:
            outputs = self.forward(*arguments.values())
        loss = None
        if not self.evaluates:
            loss = self.loss(outputs, self.layout.rebuilt(tensors)) if self.loss else _loss_of(outputs)
            _check_loss(loss, self.loss is not None)
        named = {name: tensor for name, tensor in _named_outputs(outputs).items() if tensor is not loss}
        self.has_loss = loss is not None
        if loss is not None:
            named.pop("loss", None)
            named = {"loss": loss, **named}
        self.outputs = tuple(named)
        return tuple(named.values())


def _check_loss(loss: Any, is_function: bool) -> None:
    if loss is None and not is_function:
        raise error("the module returns no loss: no scalar, no output 'loss', and no scalar as its first output",
                    hint="specify loss=, a function of outputs and batch")
    if not isinstance(loss, torch.Tensor) or loss.ndim != 0:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise error(f"the loss is {found}; expected a tensor without axes",
                    hint="reduce it over the samples, as by .mean()")


@contextmanager
def _replaced_forward(net: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    had = "forward" in vars(net)
    before = vars(net).get("forward")
    object.__setattr__(net, "forward", forward)
    try:
        yield
    finally:
        if had:
            object.__setattr__(net, "forward", before)
        else:
            object.__delattr__(net, "forward")


def _line_of_user(failure: BaseException) -> str:
    """The innermost line outside of PyTorch and of this package, where the module is at fault."""
    own = os.path.dirname(os.path.abspath(__file__))
    of_torch = os.path.dirname(os.path.abspath(torch.__file__))
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if not os.path.abspath(frame.filename).startswith((own, of_torch)) and os.path.exists(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _axes(tensors: dict[str, torch.Tensor], layout: Layout, batch_axis: Any) -> dict[str, int | None]:
    """The axis of each input that counts the samples."""
    by_name = {}
    for key, name in zip(layout.keys, layout.names, strict=True):
        axis = batch_axis.get(key, 0) if isinstance(batch_axis, Mapping) else batch_axis
        by_name[name] = axis if axis is None or axis < tensors[name].ndim else None
    return by_name


def _samples(tensors: dict[str, torch.Tensor], axes: dict[str, int | None]) -> int:
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


def export(net: nn.Module, example: Batch, *, loss: LossFunction | None = None, inputs: Any = None, batch_axis: Any = 0,
           dynamic: Mapping[Any, Mapping[int, str]] | None = None, evaluates: bool = False) -> Exported:
    """Exports a module with its loss. The program has the module's own parameter names, an input per entry of the batch
    and the number of samples as a symbol. Errors keep the text of PyTorch and name the line of the module."""
    net = unwrapped(net)
    if isinstance(net, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise error(f"is a {type(net).__name__}; give the module inside, net.module: rannc divides the batch itself",
                    place="net")
    if net._forward_hooks or net._forward_pre_hooks:
        raise error("has forward hooks of its own, which a program cannot contain: remove them, or put them on a "
                    "submodule", place="net")
    if not net.training and not evaluates:
        warnings.warn("the module is in evaluation mode, so that dropout is off and statistics stay: net.train()",
                      Warning, stacklevel=4)
    layout = layout_of(example, net)
    tensors = layout.tensors(example)
    axes = _axes(tensors, layout, batch_axis)
    samples = _samples(tensors, axes)
    recorder = _Recorder(net, layout, _taken(net, layout, loss is not None, inputs), loss, evaluates)

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return recorder(*tensors)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__dict__["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in layout.names])
    shapes, sizes = _shapes(layout, tensors, axes, dynamic or {})
    examples = tuple(tensor.detach() for tensor in tensors.values())
    parameters = names_of_parameters(net)
    with _replaced_forward(net, forward):
        program = _exported(net, examples, shapes)
    return Exported(program, layout, samples, recorder.outputs, recorder.has_loss, parameters, sizes)


def _shapes(layout: Layout, tensors: dict[str, torch.Tensor], axes: dict[str, int | None],
            dynamic: Mapping[Any, Mapping[int, str]]) -> tuple[tuple[dict[int, Any], ...], dict[str, int]]:
    symbols = {"batch": torch.export.Dim("batch")}
    sizes: dict[str, int] = {}
    shapes = []
    for key, name in zip(layout.keys, layout.names, strict=True):
        axis = axes[name]
        of_input = {} if axis is None else {axis: symbols["batch"]}
        for other, symbol in dynamic.get(key, {}).items():
            of_input[other] = symbols.setdefault(symbol, torch.export.Dim(symbol))
            sizes[symbol] = tensors[name].shape[other]
        shapes.append(of_input)
    return tuple(shapes), sizes


def _exported(net: nn.Module, examples: tuple[torch.Tensor, ...], shapes: Any) -> torch.export.ExportedProgram:
    from ._core import Error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            return torch.export.export(net, examples, dynamic_shapes=shapes, strict=False)
    except Error:
        raise
    except Exception as failure:
        raise error(f"torch.export cannot trace {type(net).__name__}: {failure}",
                    place=_line_of_user(failure)) from failure
