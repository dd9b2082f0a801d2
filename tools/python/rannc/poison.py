"""Gradients that are not there, in the parameters of a module whose trainer has its own."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .options import error

#: What reads or scales gradients: clipping, norms, scalers.
_USES = frozenset({"_foreach_norm", "norm", "linalg_vector_norm", "vector_norm", "_foreach_mul_", "mul_", "_foreach_clamp_min_",
                   "_foreach_clamp_max_", "clamp_", "_foreach_abs", "_amp_foreach_non_finite_check_and_unscale_"})


class _Absent(torch.Tensor):
    """Zeros in place of a gradient. Its use by clipping or a scaler is an error."""

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], types: Any, arguments: Any = (), named: Any = None) -> Any:
        if getattr(function, "__name__", "") in _USES:
            raise error(f"torch's {function.__name__} reads gradients of the module, which are in the trainer",
                        place="gradients", hint="clip_norm= of rannc.Trainer clips by the global norm; "
                        "trainer.gradients() returns copies")
        return super().__torch_function__(function, types, arguments, named or {})


def add(net: nn.Module) -> None:
    """Gives all trained parameters without a gradient one that must not be used. It takes no memory."""
    for parameter in net.parameters():
        if parameter.requires_grad and parameter.grad is None and parameter.is_leaf:
            zero = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
            parameter.grad = zero.expand(parameter.shape).as_subclass(_Absent)


def remove(net: nn.Module) -> None:
    for parameter in net.parameters():
        if isinstance(parameter.grad, _Absent):
            parameter.grad = None
