"""Parts of objects in which a call of a module may leave something for the next: items, attributes and variables."""
from __future__ import annotations

import dis
import functools
import logging
import sys
import sysconfig
from collections import OrderedDict, deque
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_LIBRARIES = frozenset({"torch", "rannc", "numpy", *sys.stdlib_module_names})
_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_CONTAINERS = (OrderedDict, dict, list, tuple, set, deque)
CACHE = type(functools.lru_cache(len))
_WITHIN = {MethodType: ("__self__", "__func__"), functools.partial: ("func", "args", "keywords"), CACHE: ("__wrapped__",)}


def _is_of_torch(module: Any) -> bool:
    """Whether a module, by its name, is of PyTorch, of what it is made of, or of this package."""
    return str(module).partition(".")[0] in _LIBRARIES


def is_of_library(module: Any) -> bool:
    """Whether a module, by its name, is of PyTorch or of another installed package."""
    file = getattr(sys.modules.get(str(module)), "__file__", None) or ""
    return _is_of_torch(module) or file.startswith(_INSTALLED)


def _has_attributes(value: Any) -> bool:
    """Whether a value is an object that may hold something, such as a cache, a configuration or a callable with a counter."""
    if isinstance(value, nn.Module):
        return True
    if isinstance(value, (torch.Tensor, ModuleType, logging.Logger)) or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    return not (callable(value) and _is_of_torch(type(value).__module__))


def _kind_of(container: Any) -> Any:
    """The class of Python whose methods a container has, unless its own class has others."""
    return next(kind for kind in _CONTAINERS if isinstance(container, kind))


def parts_of(value: Any) -> dict[Any, Any]:
    """Items of a container, as it stores them, attributes of an object or a class, or variables of a function; of libraries,
    none of the latter two."""
    if isinstance(value, dict):
        return dict(dict.items(value))
    if isinstance(value, set):
        return {each: each for each in set.__iter__(value)}
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(_kind_of(value).__iter__(value)))
    if isinstance(value, FunctionType):
        return _variables_of(value)
    for kind, names in _WITHIN.items():
        if isinstance(value, kind):
            return {name: getattr(value, name) for name in names}
    if isinstance(value, type):
        return _attributes_of(value)
    return dict(vars(value)) if _has_attributes(value) else {}


def bases_of(kind: type) -> list[type]:
    """A class and its bases, without those of libraries."""
    return [each for each in kind.__mro__ if not is_of_library(each.__module__)]


def place_of(value: Any, place: str, key: Any) -> str:
    """The place of a part, for messages. That of a whole ends in a dot, or is empty."""
    whole, _, table = place.rpartition(".")
    if table in ("", "_buffers", "_modules", "_parameters"):
        return f"{whole}.{key}" if whole else str(key)
    return f"{place}[{key!r}]" if isinstance(value, _CONTAINERS) else f"{place}.{key}"


def put_parts(value: Any, parts: dict[Any, Any], now: dict[Any, Any]) -> None:
    """Replaces the parts `now`. Others, as of modules that `torch.export` follows, stay."""
    if isinstance(value, (list, deque, set)):
        kind = _kind_of(value)
        kind.clear(value)
        (kind.update if kind is set else kind.extend)(value, parts.values())
    elif isinstance(value, (FunctionType, type)):
        for name in now.keys() - parts.keys():
            _delete(value, name)
        for name, part in parts.items():
            if now.get(name, parts) is not part:
                _set(value, name, part)
    elif isinstance(value, dict) or _has_attributes(value):
        table = value if isinstance(value, dict) else vars(value)
        kind = _kind_of(table)
        others = {name: each for name, each in dict.items(table) if name not in now}
        kind.clear(table)  # of what the call has added
        for name, part in {**others, **parts}.items():
            kind.__setitem__(table, name, part)


def _names_in(code: CodeType) -> set[str]:
    """Names of global variables and attributes, also in functions within."""
    return {*code.co_names, *(name for each in code.co_consts if isinstance(each, CodeType) for name in _names_in(each))}


def names_read(code: CodeType) -> tuple[set[str], set[str]]:
    """Names of the global variables and of the attributes that a function reads, also in functions within."""
    variables, attributes = set(), set()
    for each in dis.get_instructions(code):
        if each.opname == "LOAD_GLOBAL":
            variables.add(each.argval)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(each.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for own, more in zip((variables, attributes), names_read(inner), strict=True):
                own |= more
    return variables, attributes


def _variables_of(function: FunctionType) -> dict[str, Any]:
    """Variables that a function shares with what is around it, its defaults and its attributes."""
    variables = function.__globals__
    if is_of_library(variables.get("__name__")):
        return {}
    found = {name: variables[name] for name in sorted(_names_in(function.__code__))
             if name in variables and not isinstance(variables[name], ModuleType)}
    for name, cell in cells_of(function).items():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it has no value
            found.pop(name, None)
    return {**found, **{name: getattr(function, name) for name in ("__defaults__", "__kwdefaults__", "__dict__")}}


def cells_of(function: FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _attributes_of(kind: type) -> dict[str, Any]:
    """Attributes and functions of a class."""
    if is_of_library(kind.__module__):
        return {}
    found = {}
    for name, value in vars(kind).items():
        function = value.fget if isinstance(value, property) else \
            value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(function, (FunctionType, CACHE)) or not name.startswith("__"):
            found[name] = function
    return found


def _set(owner: FunctionType | type, name: str, value: Any) -> None:
    if isinstance(owner, type) or name.startswith("__"):
        setattr(owner, name, value)
    elif name in cells_of(owner):
        cells_of(owner)[name].cell_contents = value
    else:
        owner.__globals__[name] = value


def _delete(owner: FunctionType | type, name: str) -> None:
    if isinstance(owner, type):
        delattr(owner, name)
    elif name in cells_of(owner):
        del cells_of(owner)[name].cell_contents
    else:
        del owner.__globals__[name]
