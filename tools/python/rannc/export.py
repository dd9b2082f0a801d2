"""A module and its loss as a program of `torch.export`."""
from __future__ import annotations

import dataclasses
import inspect
import io
import keyword
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .adopted import modules_in_loss, modules_read, parameters_in, warn_of_constants, within, without
from .carried import Attributes, assigned_buffers, difference_of_calls
from .gradients import CustomGradients
from .options import error, warn
from .tracing import (check_module, constants_noticed, error_of, is_of_samples, kernels_of_known_shapes, layer_drop_followed,
                      line_of_length, line_of_node, lines_of_user, new_buffers_hidden, warn_of_buffers)

Batch = Mapping[str, torch.Tensor] | Sequence[torch.Tensor] | torch.Tensor
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
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
    in_loss: dict[str, nn.Module]  #: modules of the loss that are trained, by their names in the program

    def in_memory(self, with_weights: bool) -> tuple[bytes, dict[str, torch.Tensor]]:
        """Returns the program without its weights, and these by `state_dict` names: contiguous, on the processor, and in the
        memory of the module where they are so already."""
        state = self.program.state_dict
        weights: dict[str, torch.Tensor] = {}
        known: dict[int, torch.Tensor] = {}  # tied parameters stay one tensor
        for name, tensor in list(state.items()):  # which keeps them, so that no two have one `id`
            if with_weights:
                weights[name] = known.setdefault(id(tensor), tensor.detach().cpu().contiguous())
            meta = tensor.detach().to("meta")
            state[name] = nn.Parameter(meta, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else meta
        content = io.BytesIO()
        torch.export.save(self.program, content)
        return content.getvalue(), weights


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
    return [each.name for each in _parameters_of_forward(net) if each.kind in _BY_PLACE]


def _taken(net: nn.Module, layout: Layout, has_loss: bool, inputs: Any) -> list[Any]:
    """Keys of the entries that the module takes; the others are for the loss."""
    if layout.kind == "tensor":
        return [0]
    if inputs is not None:
        if not isinstance(inputs, (int, Sequence)) or isinstance(inputs, str):
            raise error(f"is {inputs!r}; expected keys of the batch, or a number of leading entries", place="inputs")
        wanted = list(range(inputs)) if isinstance(inputs, int) else list(inputs)
        unknown = [key for key in wanted if key not in layout.keys]
        if unknown:
            raise error(f"the batch has no {_listed(unknown)}; it has {_listed(layout.keys)}", place="inputs")
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
        raise error(f"lacks {_listed(lacking)}, which forward of {type(net).__name__} requires; it has "
                    f"{_listed(layout.keys)}", place="example")
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
        raise error(f"is a tuple; forward requires {_listed(by_key)} by keyword: use a dictionary", place="example")
    if len(required) > len(layout.keys):
        raise error(f"has {len(layout.keys)} entries; forward requires {_listed(each.name for each in required)}",
                    place="example")
    return list(layout.keys[:len(required)])


def _all_in_order(parameters: list[inspect.Parameter], layout: Layout) -> list[Any]:
    """All entries of a batch whose loss the module returns, or that is evaluated."""
    by_place = [each.name for each in parameters if each.kind in _BY_PLACE]
    if len(by_place) < len(layout.keys) and all(each.kind is not inspect.Parameter.VAR_POSITIONAL for each in parameters):
        raise error(f"has {len(layout.keys)} entries; forward takes {_listed(by_place)}", place="example",
                    hint="loss=, a function of outputs and batch, reads labels; inputs= numbers the entries of the module")
    return list(layout.keys)


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

    def __init__(self, net: nn.Module, layout: Layout, taken: list[Any], loss: LossFunction | None, evaluates: bool,
                 in_loss: Mapping[str, nn.Module]):
        self.net, self.in_loss, self.noticed = net, in_loss, dict[str, None]()
        self.forward, self.layout, self.taken, self.loss, self.evaluates = net.forward, layout, taken, loss, evaluates
        self.outputs: tuple[str, ...] = ()
        self.has_loss = False
        self.where = self._of_module = f"forward of {type(net).__name__}"  # what runs, for errors
        self.gradients = CustomGradients(lambda: self.where)
        self.attributes = Attributes(_owners(net, net.forward, loss), net)
        self.changes: dict[str, tuple[Any, Any]] = {}  # of attributes, by the last call
        self.assigned: dict[str, tuple[Any, Any]] = {}  # buffers, likewise
        self.followed: tuple[str, ...] = ()  # buffers whose copies between two calls are outputs
        self.calls = 1  # of the module in the program

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with (_replaced_forward(self.net, self.forward),  # a loss may call the module again
              constants_noticed(self.noticed), layer_drop_followed(lambda: self.where),
              new_buffers_hidden(self.net), self.gradients.watched()):
            try:
                return self._recorded(tensors)
            finally:
                self.attributes.restore()  # also for the next trace

    def _recorded(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Outputs of one call, or of two and buffers between them. Notes what changes."""
        buffers = dict(self.net.named_buffers(remove_duplicate=False))
        outputs = self._outputs_of(tensors)
        if self.calls == 1:
            self.assigned = assigned_buffers(self.net, buffers)
            self.changes = {**self.attributes.changes(), **self.assigned}
            return outputs
        between = Attributes(_owners(self.net, self.forward, self.loss), self.net)
        states = {name: buffer.clone() for name, buffer in self.net.named_buffers(remove_duplicate=False)
                  if name in buffers and name not in self.assigned}
        outputs += self._outputs_of(tensors)
        self.changes, self.followed = between.changes(), tuple(states)
        return outputs + tuple(states.values())

    def _outputs_of(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        with without(self.net, self.in_loss):  # forward and loss may iterate over modules and parameters
            outputs, loss = self._called(tensors)
        named = {name: tensor for name, tensor in _named_outputs(outputs).items() if tensor is not loss}
        self.has_loss = loss is not None
        if loss is not None:
            named.pop("loss", None)
            named = {"loss": loss, **named}
        self.outputs = tuple(named)
        return tuple(named.values())

    def _called(self, tensors: tuple[torch.Tensor, ...]) -> tuple[Any, torch.Tensor | None]:
        """Outputs of the module, and the loss."""
        by_key = dict(zip(self.layout.keys, tensors, strict=True))
        arguments = {key: by_key[key] for key in self.taken}
        self.where = self._of_module
        if self.layout.kind == "mapping":
            outputs = self.forward(**arguments)
        else:
            outputs = self.forward(*arguments.values())
        if self.evaluates:
            return outputs, None
        if self.loss:
            self.where = "the loss function"
        loss = self._computed(outputs, tensors, by_key) if self.loss else _loss_of(outputs)
        _check_loss(loss, self.loss is not None)
        return outputs, loss

    def _computed(self, outputs: Any, tensors: tuple[torch.Tensor, ...], by_key: dict[Any, torch.Tensor]) -> Any:
        """The loss of a function of outputs and batch, or of a class of `torch.nn` of outputs and labels."""
        assert self.loss is not None
        if not isinstance(self.loss, nn.modules.loss._Loss):
            return self.loss(outputs, self.layout.rebuilt(tensors))
        labels = [key for key in by_key if key not in self.taken]
        if len(labels) != 1:
            raise error(f"{type(self.loss).__name__} takes outputs and labels, but the module leaves {_listed(labels)} of the batch",
                        place="loss", hint="write a function of outputs and batch, such as "
                        f"lambda outputs, batch: {type(self.loss).__name__}()(outputs, batch['labels'])")
        return self.loss(outputs, by_key[labels[0]])


def _owners(net: nn.Module, forward: Any, loss: Any) -> dict[str, Any]:
    """Objects in which a call may leave something, by the start of a place in them."""
    owners: dict[str, Any] = {f"{name}." if name else "": module for name, module in net.named_modules()}
    loss = getattr(loss, "__self__", loss)
    others = {"loss": loss, **({} if getattr(forward, "__self__", None) is net else {"forward": forward})}
    for start, module in [("loss", loss)] if isinstance(loss, nn.Module) else modules_read(loss):
        others.update(module.named_modules(prefix=start))
    known = {id(owner) for owner in owners.values()}
    return {**owners, **{f"{name}.": other for name, other in others.items() if id(other) not in known}}


def _check_loss(loss: Any, is_function: bool) -> None:
    if loss is None and not is_function:
        raise error("the module returns no loss: no scalar, no output 'loss', and no scalar as its first output",
                    hint="specify loss=, a function of outputs and batch")
    if not isinstance(loss, torch.Tensor) or loss.ndim != 0:
        if isinstance(loss, torch.Tensor):
            sizes = ", ".join(str(size) if isinstance(size, int) else "samples" for size in loss.shape)
            raise error(f"is a tensor of shape ({sizes}); expected one without axes", place="loss",
                        hint="reduce it over the samples, as by .mean()")
        found = {"SymFloat": "number, of item()", "SymInt": "number, of item()"}.get(type(loss).__name__, type(loss).__name__)
        raise error(f"is a {found}; expected a tensor without axes", place="loss",
                    hint="return the tensor that loss.backward() would be called of")


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


def _axes(tensors: dict[str, torch.Tensor], layout: Layout, batch_axis: Any) -> dict[str, int | None]:
    """The axis of each input that counts the samples."""
    by_name = {}
    if isinstance(batch_axis, Mapping):
        unknown = [key for key in batch_axis if key not in layout.keys]
        if unknown:
            raise error(f"the batch has no {_listed(unknown)}; it has {_listed(layout.keys)}", place="batch_axis")
    for key, name in zip(layout.keys, layout.names, strict=True):
        axis = batch_axis.get(key, 0) if isinstance(batch_axis, Mapping) else batch_axis
        if axis is not None and not isinstance(axis, int):
            raise error(f"is {axis!r}; expected the number of an axis, or a dictionary of such", place="batch_axis")
        rank = tensors[name].ndim
        if isinstance(batch_axis, Mapping) and key in batch_axis and axis is not None and not -rank <= axis < rank:
            raise error(f"is {axis} for {key!r}, which has {rank} axes", place="batch_axis")
        by_name[name] = axis % rank if axis is not None and -rank <= axis < rank else None
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
           dynamic: Mapping[Any, Mapping[int, str]] | None = None, evaluates: bool = False, optimizer: Any = None) -> Exported:
    """Exports a module with its loss. The program has the module's own parameter names, an input per entry of the batch
    and the number of samples as a symbol. Errors keep the text of PyTorch and name the line of the module.

    optimizer: of the user, or a name; determines which modules of the loss are trained
    """
    net = unwrapped(net)
    if isinstance(net, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise error(f"is a {type(net).__name__}; give the module inside, net.module: rannc divides the batch itself",
                    place="net")
    if loss is not None and not callable(loss):
        raise error(f"is a {type(loss).__name__}; expected a function of the module's outputs and the batch", place="loss",
                    hint="such as loss=lambda outputs, batch: torch.nn.functional.cross_entropy(outputs, batch[1])")
    in_loss = modules_in_loss(net, loss, optimizer)
    with within(net, in_loss):
        exported, attributes = _export(net, example, loss, inputs, batch_axis, dynamic or {}, evaluates, in_loss)
        if not evaluates and parameters_in(optimizer) is None:
            warn_of_constants(net, attributes.tensors(), exported.program.constants.values())
        return exported


def _export(net: nn.Module, example: Batch, loss: LossFunction | None, inputs: Any, batch_axis: Any,
            dynamic: Mapping[Any, Mapping[int, str]], evaluates: bool, in_loss: dict[str, nn.Module]) -> tuple[Exported, Attributes]:
    check_module(net, evaluates)
    if net._forward_hooks or net._forward_pre_hooks:
        raise error("has forward hooks of its own, which a program cannot contain: remove them, or put them on a "
                    "submodule", place="net")
    if not net.training and not evaluates:
        warn("the module is in evaluation mode, so that dropout is off and statistics stay: net.train()")
    layout = layout_of(example, net)
    tensors = layout.tensors(example)
    axes = _axes(tensors, layout, batch_axis)
    samples = _samples(tensors, axes)
    recorder = _Recorder(net, layout, _taken(net, layout, loss is not None, inputs), loss, evaluates, in_loss)

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return recorder(*tensors)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    forward.__dict__["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in layout.names])
    shapes = _shapes(layout, tensors, axes, dynamic)
    examples = tuple(tensor.detach() for tensor in tensors.values())
    parameters = names_of_parameters(net)
    try:
        with _replaced_forward(net, forward):
            program = _without_vmap(_exported(recorder, net, examples, shapes, axes))
            if not evaluates:
                recorder.gradients.check()
            if recorder.changes:
                _check_calls(recorder, lambda: _exported(recorder, net, examples, shapes, axes))
    finally:
        recorder.attributes.restore()  # lists in place of which `torch.export` leaves copies
    sizes = _sizes(program, shapes, axes, examples)
    if not evaluates:
        warn_of_buffers(program)
        for text in recorder.noticed:
            warn(text)
    exported = Exported(program, layout, samples, recorder.outputs, recorder.has_loss, parameters, sizes, in_loss)
    return exported, recorder.attributes


def _check_calls(recorder: _Recorder, exported: Callable[[], torch.export.ExportedProgram]) -> None:
    """Refuses a module of which one call affects the next through attributes: each step of a program is a first call."""
    changes, recorder.calls = recorder.changes, 2
    names = sorted(changes)
    before, after = changes[names[0]]
    numbers = isinstance(after, (bool, int, float, str))
    change = (f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: forward or loss changes this "
              + ("buffer" if names[0] in recorder.assigned else "attribute")
              + (f" ({before!r} became {after!r})" if numbers else ""))
    hint = ("what changes between steps can be an entry of the batch, such as batch_axis={'factor': None} for one without samples; "
            "or compute it from the inputs")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = exported()
            node = difference_of_calls(program, len(recorder.outputs), recorder.followed)
    except Exception as failure:
        raise error(f"{change}, and cannot be traced again after it, while each step of a program is a first call: {failure}",
                    hint=hint) from failure
    if node is not None:
        raise error(f"{change}, which the next call reads, while each step of a program is a first call", place=line_of_node(node),
                    hint=hint)
    for name in recorder.assigned:
        if not name.endswith("num_batches_tracked"):
            recorder.noticed.setdefault(f"{name}: forward assigns this buffer, which a trainer does not: it keeps its value")
    for name, (before, after) in changes.items():
        if isinstance(after, (bool, int, float, str)) and name in recorder.changes:
            recorder.noticed.setdefault(f"{name}: forward changes this attribute ({before!r} became {after!r}), which is a "
                                        "constant of the program: each step computes as the first call")


def _without_vmap(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The same program with batched operators in place of the marks of `torch.vmap`, which no archive can contain."""
    if any(getattr(node.target, "__module__", "") == "torch._functorch.predispatch" for node in program.graph.nodes):
        return program.run_decompositions({})
    return program


def _shapes(layout: Layout, tensors: dict[str, torch.Tensor], axes: dict[str, int | None],
            dynamic: Mapping[Any, Mapping[int, str]]) -> tuple[dict[int, Any], ...]:
    _check_dynamic(dynamic, layout, tensors, axes)
    symbols = {"batch": torch.export.Dim("batch")}
    shapes = []
    for key, name in zip(layout.keys, layout.names, strict=True):
        axis = axes[name]
        of_input = {} if axis is None else {axis: symbols["batch"]}
        for given, symbol in dynamic.get(key, {}).items():
            other = given % tensors[name].ndim
            of_input[other] = symbols.setdefault(symbol, torch.export.Dim(symbol))
        shapes.append(of_input)
    return tuple(shapes)


def _sizes(program: torch.export.ExportedProgram, shapes: tuple[dict[int, Any], ...], axes: dict[str, int | None],
           examples: tuple[torch.Tensor, ...]) -> dict[str, int]:
    """The sizes of the example by the symbols that the exporter has named, for planning."""
    nodes = {node.name: node for node in program.graph.nodes}
    sizes = {}
    for node, shape, own, tensor in zip(program.graph_signature.user_inputs, shapes, axes.values(), examples, strict=True):
        for axis in shape:
            extent = nodes[str(node)].meta["val"].shape[axis]
            if axis != own and isinstance(extent, torch.SymInt):
                sizes[str(extent)] = tensor.shape[axis]
    return {symbol: size for symbol, size in sizes.items() if symbol.isidentifier()}


def _check_dynamic(dynamic: Any, layout: Layout, tensors: dict[str, torch.Tensor], axes: dict[str, int | None]) -> None:
    form = "expected names by entry and axis: {'tokens': {1: 'sequence'}}"
    if not isinstance(dynamic, Mapping):
        raise error(f"is a {type(dynamic).__name__}; {form}", place="dynamic")
    names = dict(zip(layout.keys, layout.names, strict=True))
    for key, entry in dynamic.items():
        if key not in names:
            raise error(f"the batch has no {key!r}; it has {_listed(layout.keys)}", place="dynamic")
        if not isinstance(entry, Mapping):
            raise error(f"is {entry!r} for {key!r}; {form}", place="dynamic")
        rank = tensors[names[key]].ndim
        for axis, symbol in entry.items():
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise error(f"names the axis {axis!r} of {key!r}, which has {rank} axes", place="dynamic")
            if not isinstance(symbol, str) or not symbol.isidentifier():
                raise error(f"has the name {symbol!r}; expected an identifier such as 'sequence'", place="dynamic")
            if axis % rank == axes[names[key]]:
                raise error(f"names the axis {axis} of {key!r}, which counts the samples and varies anyway", place="dynamic")


def _exported(recorder: _Recorder, net: nn.Module, examples: tuple[torch.Tensor, ...], shapes: tuple[dict[int, Any], ...],
              axes: dict[str, int | None]) -> torch.export.ExportedProgram:
    from ._core import Error
    # A condition on sizes that vary becomes one of the run, where it is one of the export otherwise.
    varies = any(axis != own for shape, own in zip(shapes, axes.values(), strict=True) for axis in shape)
    try:
        return _traced(net, examples, shapes, prefer_deferred_runtime_asserts_over_guards=varies)
    except Error:
        raise
    except Exception as failure:
        if not is_of_samples(failure) or all(0 not in shape for shape in shapes):
            raise error_of(failure, recorder.where) from failure
    return _of_certain_samples(recorder, net, examples, shapes, axes)


def _traced(net: nn.Module, examples: tuple[torch.Tensor, ...], shapes: tuple[dict[int, Any], ...],
            **options: bool) -> torch.export.ExportedProgram:
    with warnings.catch_warnings(), lines_of_user(), kernels_of_known_shapes():
        warnings.filterwarnings("ignore", category=FutureWarning)
        return torch.export.export(net, examples, dynamic_shapes=shapes, strict=False, **options)


def _of_certain_samples(recorder: _Recorder, net: nn.Module, examples: tuple[torch.Tensor, ...],
                        shapes: tuple[dict[int, Any], ...], axes: dict[str, int | None]) -> torch.export.ExportedProgram:
    """Exports a module that works for the number of samples of the example alone, as a loop over them or `len()` does.
    The compiler divides its mini-batches if it can prove that samples are independent."""
    others = tuple({axis: symbol for axis, symbol in shape.items() if axis != own}
                   for shape, own in zip(shapes, axes.values(), strict=True))
    line = line_of_length(net, lambda: recorder(*examples))
    try:
        program = _traced(net, examples, others)
    except Exception as failure:
        raise error_of(failure, recorder.where) from failure
    samples = next(tensor.shape[axis] for tensor, axis in zip(examples, axes.values(), strict=True) if axis is not None)
    warn(f"{line + ': ' if line else ''}forward or loss works for {samples} samples alone: their number is a constant, as by "
         "len(x) or a loop over samples; x.shape[0] is no constant")
    return program
