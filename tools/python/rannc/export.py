"""A module and its loss as a program of `torch.export`."""
from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .adopted import modules_in_loss, modules_read, parameters_in, warn_of_constants, within, without
from .carried import Attributes, assigned_buffers, difference_of_calls
from .gradients import CustomGradients
from .layout import Batch, Layout, axes_of, identifier, layout_of, listed, samples_of, taken_of
from .options import error, warn
from .tracing import (check_module, constants_noticed, error_of, is_of_samples, kernels_of_known_shapes, layer_drop_followed,
                      line_of_length, line_of_node, lines_of_user, new_buffers_hidden, warn_of_buffers)

LossFunction = Callable[[Any, Any], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Exported:
    """A program whose first output is the loss, if it has one."""
    program: torch.export.ExportedProgram
    layout: Layout
    samples: int  #: of the example
    outputs: tuple[str, ...]  #: names, in order; that of the loss first
    has_loss: bool
    parameters: dict[int, list[str]]  #: names of a parameter, by `id`
    batch: str  #: the symbol that counts samples; empty if their number is a constant
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
            named[identifier("_".join(parts) if parts and not parts[0].isdigit() else "_".join(["output", *parts]),
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
        self.attributes = Attributes(owners_of(net, net.forward, loss), net)
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
        between = Attributes(owners_of(self.net, self.forward, self.loss), self.net)
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
            named = {identifier("loss", [*self.layout.names, *named]): loss, **named}  # an entry of the batch may be `loss`
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
            raise error(f"{type(self.loss).__name__} takes outputs and labels, but the module leaves {listed(labels)} of the batch",
                        place="loss", hint="write a function of outputs and batch, such as "
                        f"lambda outputs, batch: {type(self.loss).__name__}()(outputs, batch['labels'])")
        return self.loss(outputs, by_key[labels[0]])


def owners_of(net: nn.Module, forward: Any, loss: Any) -> dict[str, Any]:
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
    axes = axes_of(tensors, layout, batch_axis)
    samples = samples_of(tensors, axes)
    recorder = _Recorder(net, layout, taken_of(net, layout, loss is not None, inputs), loss, evaluates, in_loss)

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
    batch, sizes = _sizes(program, shapes, axes, examples)
    if not evaluates:
        warn_of_buffers(program)
        for text in recorder.noticed:
            warn(text)
        _warn_of_unread(program, layout, len(recorder.taken))
    exported = Exported(program, layout, samples, recorder.outputs, recorder.has_loss, parameters, batch, sizes,
                        in_loss)
    return exported, recorder.attributes


def _warn_of_unread(program: torch.export.ExportedProgram, layout: Layout, taken: int) -> None:
    """Warns of entries of a tuple that neither module nor loss reads, as an optional argument of forward. Dictionaries of data sets
    often have such."""
    if layout.kind != "sequence":
        return
    nodes = {node.name: node for node in program.graph.nodes}
    for key, name in zip(layout.keys, program.graph_signature.user_inputs, strict=True):
        if not nodes[str(name)].users:
            warn(f"neither module nor loss reads entry {key} of the batch; forward takes the first {taken}: "
                 f"inputs={key + 1} passes it to forward, too")


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
           examples: tuple[torch.Tensor, ...]) -> tuple[str, dict[str, int]]:
    """The symbol that counts samples, and the sizes of the example by the other symbols, for planning. The exporter has
    named them."""
    nodes = {node.name: node for node in program.graph.nodes}
    batch, sizes = "", {}
    for node, shape, own, tensor in zip(program.graph_signature.user_inputs, shapes, axes.values(), examples, strict=True):
        for axis in shape:
            extent = nodes[str(node)].meta["val"].shape[axis]
            if not isinstance(extent, torch.SymInt) or not str(extent).isidentifier():
                continue
            if axis == own:
                batch = str(extent)
            else:
                sizes[str(extent)] = tensor.shape[axis]
    return batch, sizes


def _check_dynamic(dynamic: Any, layout: Layout, tensors: dict[str, torch.Tensor], axes: dict[str, int | None]) -> None:
    form = "expected names by entry and axis: {'tokens': {1: 'sequence'}}"
    if not isinstance(dynamic, Mapping):
        raise error(f"is a {type(dynamic).__name__}; {form}", place="dynamic")
    names = dict(zip(layout.keys, layout.names, strict=True))
    for key, entry in dynamic.items():
        if key not in names:
            raise error(f"the batch has no {key!r}; it has {listed(layout.keys)}", place="dynamic")
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
            raise error_of(failure, recorder.where, net) from failure
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
        raise error_of(failure, recorder.where, net) from failure
    samples = next(tensor.shape[axis] for tensor, axis in zip(examples, axes.values(), strict=True) if axis is not None)
    warn(f"{line + ': ' if line else ''}forward or loss works for {samples} samples alone: their number is a constant, as by "
         "len(x) or a loop over samples; x.shape[0] is no constant")
    return program
