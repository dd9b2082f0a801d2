"""Attributes, variables and tensors through which one call of a module, or a script between two, affects the next."""
from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree

from .parts import CACHE, bases_of, cells_of, is_of_library, names_read, parts_of, place_of, put_parts

#: Attributes of modules that `torch.export` follows by itself.
_FOLLOWED = frozenset({"_parameters", "_buffers", "_modules", "training", *(
    name for name in vars(nn.Module()) if name.endswith(("hooks", "hooks_with_kwargs", "hooks_always_called", "_set")))})
_OF_NET = _FOLLOWED | {"forward"}  # which the export replaces
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 8  # containers, objects and functions in one another
_MOST_WATCHED = 64  # items of a container that are compared before each step
_MOST = 10_000  # parts of an owner, and of all classes; those beyond, such as vocabularies and data sets, are not compared


class _Saved:
    """A value with its parts by key, if these are compared. `hidden`: keys of parts that are not."""
    __slots__ = ("value", "parts", "hidden")

    def __init__(self, value: Any, hidden: Collection[str] = ()):
        self.value, self.hidden = value, hidden
        self.parts: dict[Any, _Saved] | None = None

    def parts_now(self, value: Any) -> dict[Any, Any]:
        parts = parts_of(value)
        return {key: part for key, part in parts.items() if key not in self.hidden} if self.hidden else parts

    def changes(self, now: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
        """Places at which `now` differs, with both values. Tensors differ if they are two objects."""
        before = self.value
        if isinstance(before, _PLAIN) and type(now) is type(before):
            if now == before or now != now:
                return
        elif now is before or (isinstance(before, (list, tuple, dict, set, deque)) and type(now) is type(before)):
            known, parts = self.parts or {}, self.parts_now(now) if self.parts is not None else {}
            for key in {**known, **parts}:
                inner = place_of(now, place, key)
                if key in known and key in parts:
                    yield from known[key].changes(parts[key], inner)
                else:
                    yield inner, known[key].value if key in known else None, parts.get(key)
            return
        yield place, before, now

    def tensors(self, place: str) -> Iterator[tuple[str, torch.Tensor]]:
        """Tensors among the parts, with their places."""
        if isinstance(self.value, torch.Tensor):
            yield place, self.value
        for key, part in (self.parts or {}).items():
            yield from part.tensors(place_of(self.value, place, key))

    def functions(self, key: Any) -> Iterator[tuple[Any, FunctionType]]:
        """Functions among the parts, with the keys at which they are."""
        if isinstance(self.value, FunctionType):
            yield key, self.value
        for name, part in (self.parts or {}).items():
            yield from part.functions(name)

    def restored(self) -> Any:
        """The value, with its former parts."""
        if self.parts is not None:
            parts, now = {key: each.restored() for key, each in self.parts.items()}, self.parts_now(self.value)
            if now.keys() != parts.keys() or any(now[key] is not each for key, each in parts.items()):
                put_parts(self.value, parts, now)
        return self.value


class Attributes:
    """What objects hold in their attributes, and functions in their variables, to find and undo what a call changes.

    owners: modules, other objects and functions by the start of a place, such as `encoder.`. Their parts and classes count, too
    net: the module of the program, whose buffers `torch.export` follows
    """

    def __init__(self, owners: Mapping[str, Any], net: nn.Module):
        self._roots: list[tuple[str, _Saved]] = []
        self._caches: dict[int, tuple[Any, int]] = {}  # of functions, with their misses so far
        of_net = {id(module) for module in net.modules()}
        for start, owner in owners.items():
            followed = id(owner) in of_net
            self._roots.append((start, _Saved(owner, _OF_NET if owner is net else _FOLLOWED if followed else ())))
            if isinstance(owner, nn.Module) and not isinstance(owner, torch.jit.ScriptModule):
                self._roots.append((start, _Saved(owner._buffers, frozenset(owner._buffers) if followed else ())))
        self._known: set[int] = set()  # objects whose parts are saved, by `id`
        self._own = {id(root.value) for _, root in self._roots}  # objects that are no part of others
        self._classes: deque[tuple[_Saved, int]] = deque()
        self._kinds: set[int] = set()  # classes that are found, by `id`
        for _, root in list(self._roots):
            self._expand(deque([(root, 0)]))
        self._expand(self._classes)  # which finds more of them

    def _expand(self, waiting: deque[tuple[_Saved, int]]) -> None:
        """Saves parts, the nearest first. `waiting`: values with their depth."""
        left = _MOST
        while waiting and left:
            each, depth = waiting.popleft()
            value = each.value
            self._add_classes(value if isinstance(value, type) else type(value))
            if depth == _DEEPEST or id(value) in self._known or (id(value) in self._own and depth):
                continue
            parts = each.parts_now(value)
            if len(parts) > left:
                continue
            left -= len(parts)
            self._known.add(id(value))
            each.parts = {key: _Saved(part) for key, part in parts.items()}
            waiting.extend((part, depth + 1) for part in each.parts.values() if not isinstance(part.value, (*_PLAIN, torch.Tensor)))
            if isinstance(value, CACHE):
                self._caches[id(value)] = value, value.cache_info().misses

    def _add_classes(self, kind: type) -> None:
        if id(kind) in self._kinds:
            return
        self._kinds.add(id(kind))
        for each in bases_of(kind):
            if id(each) not in self._own:
                self._own.add(id(each))
                root = _Saved(each)
                self._roots.append((f"{each.__name__}.", root))
                self._classes.append((root, 0))

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Places that have changed, with their former and present values."""
        return {place: (before, after) for start, root in self._roots for place, before, after in root.changes(root.value, start)}

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Tensors that the owners reach, with their places, without those that `torch.export` follows."""
        for start, root in self._roots:
            yield from root.tensors(start)

    def roots(self) -> list[tuple[str, _Saved]]:
        """The owners and the classes that they reach, by the start of a place."""
        return self._roots

    def restore(self) -> None:
        """Gives back what was saved. Caches of functions that have grown are cleared, since they may have tensors of a trace."""
        for _, root in self._roots:
            root.restored()
        for key, (cache, misses) in self._caches.items():
            if cache.cache_info().misses != misses:
                cache.cache_clear()
                self._caches[key] = cache, 0


class _Cells(dict[str, Any]):
    """The variables of a function that it shares with the functions around it, by name."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name).cell_contents


class Watched:
    """Numbers, texts and tensors that forward and loss read through attributes and variables. Each step has them as they were at the
    export. Parameters and buffers of modules are not among them.

    Attributes of classes of the user count if code that may run reads one of their name, items of short containers alone.
    """

    def __init__(self, owners: Mapping[str, Any], net: nn.Module):
        attributes = Attributes(owners, net)
        self._read = {"forward", "__call__", "__func__", "func", "args", "keywords", "__wrapped__", "training"}
        self._functions: set[int] = set()  # that may run, by `id`
        self._found: list[tuple[str, Any, Any, Any, int | None]] = []  # place, whole, key, value, version of a tensor
        self._seen: set[int] = set()
        self._find_functions([each for start, root in attributes.roots()
                              for each in root.functions("forward" if start in ("loss.", "forward.") else "")])
        for start, root in attributes.roots():
            self._add(start, root)
        self._found += [(f"{start}training", vars(owner), "training", owner.training, None) for start, owner in owners.items()
                        if isinstance(owner, nn.Module) and "training" in vars(owner)]

    def _find_functions(self, functions: list[tuple[Any, FunctionType]]) -> None:
        """Finds the functions that forward and loss may call, by the names that these read."""
        known = -1
        while known != len(self._functions):
            known = len(self._functions)
            for name, function in functions:
                if name in self._read and id(function) not in self._functions:
                    self._functions.add(id(function))
                    self._read.update(*names_read(function.__code__), function.__code__.co_freevars)

    def _add(self, place: str, whole: _Saved) -> None:
        """Adds the parts of a whole, and theirs."""
        value, parts = whole.value, whole.parts
        if parts is None or id(value) in self._seen:
            return
        self._seen.add(id(value))
        for key, table in self._tables(value, parts):
            part, inner = parts[key], place_of(value, place, key)
            if isinstance(part.value, _PLAIN):
                self._found.append((inner, table, key, part.value, None))
            elif isinstance(part.value, torch.Tensor):
                if not part.value.is_inference():
                    self._found.append((inner, table, key, part.value, part.value._version))
            else:
                self._add(inner, part)

    def _tables(self, value: Any, parts: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Keys of the parts that are read, with what has their present values."""
        if isinstance(value, FunctionType):
            cells = _Cells(cells_of(value))
            of_globals = names_read(value.__code__)[0] if id(value) in self._functions else set()
            yield from ((key, cells if key in cells else value.__globals__) for key in parts if key in cells or key in of_globals)
        elif isinstance(value, (dict, list, tuple, deque)):
            yield from ((key, value) for key in parts if len(parts) <= _MOST_WATCHED)
        elif hasattr(value, "__dict__"):
            of_library = is_of_library(type(value).__module__) and not isinstance(value, type)
            yield from ((key, vars(value)) for key in parts if key in self._read
                        or of_library and not str(key).startswith("_"))

    def changed(self) -> list[str]:
        """Places that have changed. Each is found once."""
        try:  # identities alone, which takes 60 ns a value
            found = [each for each in self._found if each[1][each[2]] is not each[3]
                     or (each[4] is not None and each[3]._version != each[4])]
        except (LookupError, ValueError):
            found = self._found
        found = [each for each in found if not _is_unchanged(*each[1:])]
        if found:
            places = {each[0] for each in found}
            self._found = [each for each in self._found if each[0] not in places]
        return [place for place, *_ in found]


def _is_unchanged(whole: Any, key: Any, value: Any, version: int | None) -> bool:
    try:
        now = whole[key]
    except (LookupError, ValueError):
        return False
    if isinstance(value, torch.Tensor):
        return now is value and value._version == version
    return now is value or (type(now) is type(value) and bool(now == value))


class WatchedTensors:
    """Parameters and buffers of modules, to find those that are written or replaced. One that moves to another device or to shared
    memory is as it was.

    modules: by the start of the names of their tensors
    """

    def __init__(self, modules: Mapping[str, nn.Module]):
        self._places = [(f"{prefix}.{name}" if prefix else name, table, name) for start, module in modules.items()
                        for prefix, each in module.named_modules(prefix=start.removesuffix("."))
                        for table in (each._parameters, each._buffers) for name in table]
        self.renew()

    def renew(self) -> None:
        """Takes what is there now as known."""
        found = [(place, table, name, table.get(name)) for place, table, name in self._places]
        self._known = [(place, table, name, tensor, tensor._version, tensor.data_ptr(), tensor.device)
                       for place, table, name, tensor in found if tensor is not None and not tensor.is_inference()]

    def written(self) -> list[tuple[str, torch.Tensor]]:
        """Tensors that are not what they were at the last call, with their names."""
        changed = [each for each in self._known if each[1].get(each[2]) is not each[3] or each[3]._version != each[4]
                   or each[3].data_ptr() != each[5]]
        if not changed:
            return []
        self.renew()
        return [(place, now) for place, table, name, tensor, version, _, device in changed
                for now in [table.get(name)] if now is not None
                if now is not tensor or now._version != version or (now.device == device and not now.is_shared())]


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


def _numbers_of(node: fx.Node) -> list[fx.Node]:
    """Nodes whose numbers a node reads, where some read the sizes of a tensor alone."""
    of_sizes = getattr(node.target, "__name__", "").startswith("sym_size")
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    if of_sizes or name.startswith("aten::new_") or name.endswith("_like"):
        return [each for each in node.all_input_nodes if each is not node.args[0]]
    return node.all_input_nodes


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
                self._varying[each] = random or any(self._varying[read] for read in _numbers_of(each))
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
