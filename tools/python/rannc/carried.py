"""Attributes and variables through which one call of a module affects the next."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree

#: Attributes of modules that `torch.export` follows by itself, and the one that the export replaces.
_FOLLOWED = frozenset({"_parameters", "_buffers", "_modules", "training", "forward", *(
    name for name in vars(nn.Module()) if name.endswith(("hooks", "hooks_with_kwargs", "hooks_always_called", "_set")))})
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 4  # containers and objects in one another
_LONGEST = 10_000  # parts; longer ones, such as vocabularies, are compared by identity


def _is_object(value: Any) -> bool:
    """Whether a value is an object with attributes, such as a cache or a configuration."""
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, (nn.Module, torch.Tensor, ModuleType))


def _parts_of(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(value))
    if isinstance(value, set):
        return {each: each for each in value}
    return dict(vars(value)) if _is_object(value) else {}


class _Saved:
    """A value, with the values in it. `known`: objects that are saved already, by `id`."""

    def __init__(self, value: Any, known: set[int], depth: int = 0):
        self.value = value
        self._parts: dict[Any, _Saved] | None = None  # None: they are not compared
        if depth < _DEEPEST and not isinstance(value, (*_PLAIN, torch.Tensor, nn.Module)) and id(value) not in known:
            known.add(id(value))
            parts = _parts_of(value)
            if len(parts) <= _LONGEST:
                self._parts = {key: _Saved(each, known, depth + 1) for key, each in parts.items()}

    def changes(self, now: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
        """Places at which `now` differs, with both values. Tensors differ if they are two objects."""
        before = self.value
        if isinstance(before, _PLAIN) and type(now) is type(before):
            if now == before or now != now:
                return
        elif now is before or (isinstance(before, (list, tuple, dict, set, deque)) and type(now) is type(before)):
            known, parts = self._parts or {}, _parts_of(now) if self._parts is not None else {}
            for key in {**known, **parts}:
                inner = f"{place}.{key}" if _is_object(now) else f"{place}[{key!r}]"
                if key in known and key in parts:
                    yield from known[key].changes(parts[key], inner)
                else:
                    yield inner, known[key].value if key in known else None, parts.get(key)
            return
        yield place, before, now

    def restored(self) -> Any:
        """The value, with its former parts."""
        value = self.value
        if self._parts is None:
            return value
        parts, now = {key: each.restored() for key, each in self._parts.items()}, _parts_of(value)
        if now.keys() == parts.keys() and all(now[key] is each for key, each in parts.items()):
            return value
        if isinstance(value, (dict, set)):
            value.clear()
            value.update(parts)
        elif isinstance(value, (list, deque)):
            value.clear()
            value.extend(parts.values())
        elif _is_object(value):
            vars(value).clear()  # of what the call has added
            vars(value).update(parts)
        return value


class _Variables:
    """Variables that a function shares with what is around it: free ones, and global ones that are no functions."""

    def __init__(self, function: FunctionType):
        self._globals = function.__globals__
        self._names = [name for name in function.__code__.co_names if self._is_data(self._globals.get(name, len))]
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    @staticmethod
    def _is_data(value: Any) -> bool:
        return isinstance(value, (*_PLAIN, list, dict, set, deque, torch.Tensor)) or _is_object(value)

    def values(self) -> dict[str, Any]:
        found = {name: self._globals.get(name) for name in self._names}
        for name, cell in self._cells.items():
            try:
                found[name] = cell.cell_contents
            except ValueError:  # it has no value
                found[name] = None
        return found

    def set(self, name: str, value: Any) -> None:
        if name not in self._cells:
            self._globals[name] = value
        elif self.values()[name] is not value:
            self._cells[name].cell_contents = value


class Attributes:
    """What objects hold in their attributes, and functions in their variables, to find and undo what a call changes.

    owners: modules, other objects and functions by the start of a place, such as `encoder.`
    net: the module of the program, whose buffers `torch.export` follows
    """

    def __init__(self, owners: Mapping[str, Any], net: nn.Module):
        known: set[int] = set()
        self._of_net = {id(module): frozenset(module._buffers) for module in net.modules()}
        self._owners = {start: _Variables(owner) if isinstance(owner, FunctionType) else owner for start, owner in owners.items()}
        self._saved = {start: {name: _Saved(value, known) for name, value in self._attributes(owner).items()}
                       for start, owner in self._owners.items()}

    def _attributes(self, owner: Any) -> dict[str, Any]:
        if isinstance(owner, _Variables):
            return owner.values()
        if not isinstance(owner, nn.Module):
            return dict(vars(owner))
        followed = self._of_net.get(id(owner), frozenset())
        return {**{name: value for name, value in vars(owner).items() if name not in _FOLLOWED},
                **{name: value for name, value in owner._buffers.items() if name not in followed}}

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Places that have changed, with their former and present values."""
        found: dict[str, tuple[Any, Any]] = {}
        for start, owner in self._owners.items():
            saved, now = self._saved[start], self._attributes(owner)
            for name in {**saved, **now}:
                each = saved[name] if name in saved else _Saved(None, set())
                found.update((place, (before, after)) for place, before, after in each.changes(now.get(name), start + name))
        return found

    def restore(self) -> None:
        for start, owner in self._owners.items():
            saved = self._saved[start]
            if isinstance(owner, _Variables):
                for name, each in saved.items():
                    owner.set(name, each.restored())
                continue
            buffers = owner._buffers if isinstance(owner, nn.Module) else {}
            for name in self._attributes(owner):
                if name not in saved:
                    del (buffers if name in buffers else vars(owner))[name]
            for name, each in saved.items():
                (buffers if name in buffers else vars(owner))[name] = each.restored()


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two modules of a program, as of the branches of `torch.cond`, have the same nodes but for their names."""
    if one is other or not (isinstance(one, fx.GraphModule) and isinstance(other, fx.GraphModule)):
        return one is other
    if len(one.graph.nodes) != len(other.graph.nodes):
        return False
    same: dict[fx.Node, fx.Node] = {}
    for a, b in zip(one.graph.nodes, other.graph.nodes, strict=True):
        same[a] = b
        if a.op != b.op or (a.op == "call_function" and a.target != b.target):
            return False
        if a.op == "get_attr" and not _are_alike(getattr(one, str(a.target)), getattr(other, str(b.target))):
            return False
        if a.op == "placeholder":
            continue
        (first, form), (second, other_form) = [_pytree.tree_flatten((each.args, each.kwargs)) for each in (a, b)]
        if form != other_form or any(not _is_same(same[x] if isinstance(x, fx.Node) else x, y)
                                     for x, y in zip(first, second, strict=True)):
            return False
    return True


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


class _Comparison:
    """Nodes of two calls of a module in one program without writes. `between`: nodes of buffers after the first call."""

    def __init__(self, program: torch.export.ExportedProgram, between: Mapping[str, Any]):
        signature = program.graph_signature
        self._program = program
        self._constants = {name: program.constants[target] for name, target in
                           signature.inputs_to_lifted_tensor_constants.items() if target in program.constants}
        self._between = {name: between.get(buffer) for name, buffer in signature.inputs_to_buffers.items()}
        self._buffers = {*signature.inputs_to_buffers, *signature.inputs_to_lifted_tensor_constants}
        self._varying: dict[fx.Node, bool] = {}

    def varies(self, node: fx.Node) -> bool:
        """Whether a value depends on the numbers of the batch, on parameters or on random numbers."""
        for each in self._program.graph.nodes:  # in order, once
            if each in self._varying:
                continue
            if each.op == "placeholder":
                self._varying[each] = each.name not in self._buffers
            else:
                random = torch.Tag.nondeterministic_seeded in getattr(each.target, "tags", ())
                of_sizes = each.op == "call_function" and not isinstance(each.meta.get("val"), torch.Tensor) and \
                    getattr(each.target, "__name__", "").startswith("sym_size")
                self._varying[each] = random or (not of_sizes and any(self._varying[read] for read in each.all_input_nodes))
        return self._varying[node]

    def pairs(self, a: fx.Node, b: fx.Node) -> list[tuple[Any, Any]] | None:
        """Operands of two nodes of the same kind; None: they differ."""
        if a.op == "placeholder" and b.op == "placeholder":
            one, other = self._constants.get(a.name), self._constants.get(b.name)
            same = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dtype == other.dtype and \
                torch.equal(one, other)
            return [] if same else None
        if a.op == "placeholder" and b is self._between.get(a.name):
            return []  # the importer refuses a buffer that one call writes and the next reads
        if a.op != b.op:
            return None
        if a.op == "get_attr":
            module = self._program.graph_module
            return [] if _are_alike(getattr(module, str(a.target)), getattr(module, str(b.target))) else None
        operands = [_pytree.tree_flatten((each.args, each.kwargs)) for each in (a, b)]
        (first, form), (second, other_form) = operands
        return list(zip(first, second, strict=True)) if a.target == b.target and form == other_form else None


def assigned_buffers(net: nn.Module, before: Mapping[str, torch.Tensor]) -> dict[str, tuple[Any, Any]]:
    """Buffers of modules within `net` that are other tensors than `before`, with both: `torch.export` follows an assignment
    to a buffer of `net` itself alone."""
    return {name: (before[name], buffer) for name, buffer in net.named_buffers(remove_duplicate=False)
            if "." in name and name in before and buffer is not before[name]}


def _has_writes(program: torch.export.ExportedProgram) -> bool:
    """Whether operators of a program write into tensors, or may do so in blocks, as of `torch.no_grad()`."""
    return any(node.op == "get_attr" or getattr(getattr(node.target, "_schema", None), "is_mutable", False)
               for node in program.graph.nodes)


def difference_of_calls(program: torch.export.ExportedProgram, outputs: int, buffers: Sequence[str]) -> fx.Node | None:
    """Returns a node at which the second of two calls in a program computes something else than the first, or which reads
    what the first made of the batch, of parameters or of random numbers. None: each call computes the same.

    outputs: number of outputs of one call; the outputs of the program are those of both calls, and copies of `buffers`, as they
        are between the calls
    """
    if not _has_writes(program) and _difference(program, outputs, buffers) is None:
        return None
    # Without writes, also through views, without blocks, and without operators that have nothing to do. Takes about as long as
    # the export.
    return _difference(program.run_decompositions({}), outputs, buffers)


def _difference(program: torch.export.ExportedProgram, outputs: int, buffers: Sequence[str]) -> fx.Node | None:
    nodes = {node.name: node for node in program.graph.nodes}
    made = [nodes[name] for name in program.graph_signature.user_outputs if isinstance(name, str)]
    copies = made[2 * outputs:]
    comparison = _Comparison(program, {name: copy.args[0] for name, copy in zip(buffers, copies, strict=True)})
    waiting: list[tuple[Any, Any, Any]] = [(a, b, b) for a, b in zip(made[:outputs], made[outputs:2 * outputs], strict=True)]
    seen: set[tuple[Any, Any]] = set()
    while waiting:
        a, b, reader = waiting.pop()
        if not (isinstance(a, fx.Node) and isinstance(b, fx.Node)):
            if not _is_same(a, b):
                return reader  # type: ignore[no-any-return]
            continue
        if (a, b) in seen:
            continue
        seen.add((a, b))
        if a is b:
            if a.op == "call_function" and comparison.varies(a):
                return reader  # type: ignore[no-any-return]
            continue
        pairs = comparison.pairs(a, b)
        if pairs is None:
            return b if b.op == "call_function" else reader  # type: ignore[no-any-return]
        waiting.extend((one, other, b) for one, other in pairs)
    return None
