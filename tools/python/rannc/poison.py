"""Gradients that are not there, in the parameters of a module whose trainer has its own."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .options import error

#: What copies, moves or clears a gradient without reading it.
_ALLOWED = frozenset({"alias", "clone", "detach", "_to_copy", "empty_like", "zero_", "zeros_like"})


class _Absent(torch.Tensor):
    """Stands in the place of a gradient and has no memory. Its use by clipping, a scaler or autograd is an error."""

    @staticmethod
    def __new__(cls, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> _Absent:
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return "<the gradient is in the trainer>"

    def share_memory_(self) -> _Absent:
        return self  # PyTorch would read memory that is not there

    def __reduce_ex__(self, _: Any) -> Any:
        return _Absent, (self.shape, self.dtype, self.device)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        name = func.overloadpacket.__name__
        if name in _ALLOWED:
            like = args[0]
            wanted = kwargs or {}
            return like if name == "zero_" else _Absent(like.shape, wanted.get("dtype") or like.dtype,
                                                        wanted.get("device") or like.device)
        raise error(f"torch's {name} reads gradients of the module, which are in the trainer", place="gradients",
                    hint="clip_norm= of rannc.Trainer clips by the global norm, trainer.step() runs the backward pass, and "
                    "trainer.gradients() returns copies; trainer.close() gives the module back")


def add(modules: Iterable[nn.Module]) -> None:
    """Gives all trained parameters without a gradient one that must not be used."""
    for parameter in _parameters_of(modules):
        if parameter.requires_grad and parameter.grad is None and parameter.is_leaf:
            parameter.grad = _Absent(parameter.shape, parameter.dtype, parameter.device)


def remove(modules: Iterable[nn.Module]) -> None:
    """Removes them, also from copies of the modules."""
    for parameter in _parameters_of(modules):
        if isinstance(parameter.grad, _Absent):
            parameter.grad = None


def _parameters_of(modules: Iterable[nn.Module]) -> Iterator[nn.Parameter]:
    return (parameter for module in modules for parameter in module.parameters())
