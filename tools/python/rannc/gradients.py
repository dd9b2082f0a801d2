"""Gradients that differ from those of a traced module's operators."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import _library
from torch.utils.checkpoint import CheckpointFunction

from .options import error
from .tracing import innermost_line

_TOLERANCE = 1e-9  # relative, in float64: rounding of both computations


class CustomGradients:
    """Calls of `torch.autograd.Function` in a trace, which keeps the operators of `forward` alone.

    where: what runs, for errors
    """

    def __init__(self, where: Callable[[], str]):
        self._where = where
        self._calls: list[tuple[type, tuple[Any, ...], dict[str, Any], str, str]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Records calls. Refuses hooks of intermediate tensors and gradients within the module or the loss."""
        apply = vars(torch.autograd.Function)["apply"]
        where, calls = self._where, self._calls

        def watched_apply(function: Any, *arguments: Any, **named: Any) -> Any:
            if function is CheckpointFunction:  # its forward has no gradient; the planner decides what is computed again
                run, _, *of_run = arguments
                return run(*of_run)
            # Custom operators keep their gradients. What a checkpoint without re-entrance saves is no part of its result.
            if function.__module__ in (_library.autograd.__name__, CheckpointFunction.__module__):
                return apply.__func__(function, *arguments, **named)
            calls.append((function, tuple(map(_described, arguments)), named, where(), innermost_line()))
            return apply.__func__(function, *arguments, **named)

        def refuse_hook(tensor: torch.Tensor, hook: Any) -> Any:
            raise error(f"{where()} registers a hook of a gradient, which a step would not call", place=innermost_line(),
                        hint="remove the hook; a factor a of a gradient is a * x + (1 - a) * x.detach()")

        def refuse_gradient(*_: Any, **__: Any) -> Any:
            raise error(f"{where()} computes a gradient, as by torch.autograd.grad, backward() or torch.func, which a program "
                        "cannot contain", place=innermost_line(),
                        hint="the derivative can be a formula of operators, or a difference of two calls")

        def refuse_data(*_: Any) -> Any:
            raise error(f"{where()} sets `.data` of a tensor, which a program does not contain", place=innermost_line(),
                        hint="assign to the tensor by copy_(), or make another one")

        data = torch.Tensor.data
        guarded = property(lambda tensor: data.__get__(tensor), refuse_data)
        with (_replaced(torch.Tensor, "data", guarded),
              _replaced(torch.autograd.Function, "apply", classmethod(watched_apply)),
              _replaced(torch.Tensor, "register_hook", refuse_hook), _replaced(torch.autograd, "grad", refuse_gradient),
              _replaced(torch.autograd, "backward", refuse_gradient),
              _replaced(torch.autograd.forward_ad, "make_dual", refuse_gradient),
              _replaced(torch.autograd, "_engine_run_backward", refuse_gradient)):  # of functions that are imported by name
            yield

    def check(self) -> None:
        """Refuses functions whose `backward` is not the gradient of their `forward`, by random numbers."""
        for function, arguments, named, where, place in self._calls:
            if not any(isinstance(each, _Tensor) and each.requires_grad for each in arguments):
                continue
            name = f"{where} calls {function.__name__}, an autograd.Function"
            hint = "write it with operators: a straight-through estimator of f is x + (f(x) - x).detach()"
            try:
                same = _is_gradient(function, arguments, named)
            except Exception as failure:
                raise error(f"{name}, of which it is not known whether its backward is the gradient of its forward, which is what a "
                            f"program has: {type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}",
                            place=place, hint=hint) from failure
            if not same:
                raise error(f"{name} whose backward is not the gradient of its forward, which is what a program has",
                            place=place, hint=hint)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replaces an attribute of a class or module."""
    had, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


class _Tensor:
    """Form of an argument: the tensor itself belongs to the trace."""

    def __init__(self, tensor: torch.Tensor):
        self.shape = [_extent(size) for size in tensor.shape]
        self.dtype, self.requires_grad = tensor.dtype, tensor.requires_grad

    def drawn(self, generator: torch.Generator, positive: bool) -> torch.Tensor:
        """Numbers on the processor: floats in float64."""
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            return torch.randint(2, self.shape, generator=generator).to(self.dtype)
        dtype = torch.complex128 if self.dtype.is_complex else torch.float64
        made = torch.randn(self.shape, generator=generator, dtype=dtype, device="cpu")
        return (made.abs() + 0.1).to(dtype) if positive else made


def _extent(size: Any) -> int:
    """A size, or that of the example."""
    return size if isinstance(size, int) else int(size.node.hint)


def _described(argument: Any) -> Any:
    return _Tensor(argument) if isinstance(argument, torch.Tensor) else argument


class _Context:
    """What `forward` stores for `backward`, which a gradient of the operators does not need."""

    def __init__(self, needs_input_grad: tuple[bool, ...]):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Any) -> None:
        raise NotImplementedError("forward writes into its arguments")

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass


def _is_gradient(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether both gradients agree on random arguments. Positive ones decide where others have no finite result."""
    for positive in (False, True):
        own = _gradients(function.apply, arguments, named, positive)
        if all(math.isfinite(each.abs().sum().item()) for each in own):
            of_operators = _gradients(_forward(function, arguments), arguments, named, positive)
            return all(torch.dist(a, b) <= _TOLERANCE * (torch.linalg.vector_norm(a) + 1) for a, b in zip(own, of_operators, strict=True))
    raise ArithmeticError("its gradient is not finite")


def _forward(function: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    if function.setup_context is not torch.autograd.Function.setup_context:
        forward: Callable[..., Any] = function.forward
        return forward
    context = _Context(tuple(isinstance(each, _Tensor) and each.requires_grad for each in arguments))
    return lambda *tensors, **named: function.forward(context, *tensors, **named)


def _gradients(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any],
               positive: bool) -> list[torch.Tensor]:
    """Gradients of all arguments that require one; zeros of those that get none."""
    generator = torch.Generator().manual_seed(0)
    made = [each.drawn(generator, positive) if isinstance(each, _Tensor) else each for each in arguments]
    wanted = [tensor.requires_grad_() for tensor, each in zip(made, arguments, strict=True)
              if isinstance(each, _Tensor) and each.requires_grad]
    with torch.enable_grad():
        outputs = function(*made, **named)
    outputs = [each for each in (outputs if isinstance(outputs, (tuple, list)) else [outputs])
               if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())]
    weights = [torch.randn(each.shape, generator=generator, dtype=each.dtype, device="cpu") for each in outputs]
    pairs = [(output, weight) for output, weight in zip(outputs, weights, strict=True) if output.requires_grad]
    found = torch.autograd.grad([output for output, _ in pairs], wanted, [weight for _, weight in pairs],
                                allow_unused=True) if pairs else [None] * len(wanted)
    return [torch.zeros_like(tensor) if gradient is None else gradient
            for tensor, gradient in zip(wanted, found, strict=True)]
