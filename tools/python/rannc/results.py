"""Results of steps, evaluations and measurements."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .compiler import framed
from .options import error


@functools.total_ordering
class Loss:
    """The loss of a step, a number that is there when the step has ended: `float(loss)` waits for it."""

    def __init__(self, wait: Callable[[], dict[str, Any]]):
        self._wait = wait

    def item(self) -> float:
        """Waits for the step and returns its loss: the sum of its terms over the mini-batch."""
        return float(self._wait()["loss"])

    @property
    def metrics(self) -> dict[str, float | torch.Tensor]:
        """Other outputs that are functions of sums over the samples, over the whole mini-batch."""
        return {name: tensor.item() if tensor.ndim == 0 else tensor for name, tensor in self._wait()["metrics"].items()}

    @property
    def gradient_norm(self) -> float:
        """Global norm of the gradients before clipping; 0 without `clip_norm`."""
        return float(self._wait()["gradient_norm"])

    @property
    def skipped(self) -> bool:
        """Whether scaled gradients (fp16) were not finite, so that nothing was updated."""
        return bool(self._wait()["skipped"])

    def __float__(self) -> float:
        return self.item()

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification)

    def __repr__(self) -> str:
        return repr(self.item())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Loss, int, float)) and self.item() == float(other)

    def __lt__(self, other: Loss | float) -> bool:
        return self.item() < float(other)

    __hash__ = object.__hash__

    def __add__(self, other: Loss | float) -> float:
        return self.item() + float(other)

    __radd__ = __add__

    def __mul__(self, other: float) -> float:
        return self.item() * float(other)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> float:
        return self.item() / float(other)

    def __rtruediv__(self, other: float) -> float:
        return float(other) / self.item()

    def __sub__(self, other: Loss | float) -> float:
        return self.item() - float(other)

    def __rsub__(self, other: float) -> float:
        return float(other) - self.item()

    def __neg__(self) -> float:
        return -self.item()

    def __abs__(self) -> float:
        return abs(self.item())

    def __pow__(self, other: float) -> float:
        return float(self.item() ** other)

    def __round__(self, digits: int | None = None) -> float:
        return round(self.item(), digits)

    def __int__(self) -> int:
        return int(self.item())

    def __reduce__(self) -> Any:
        return float, (self.item(),)

    def detach(self) -> Loss:
        """The loss itself, for scripts that expect a tensor; so are `cpu`, and `tolist` for the number."""
        return self

    cpu = detach

    def tolist(self) -> float:
        return self.item()

    def backward(self, *_: Any, **__: Any) -> None:
        raise error("loss.backward(): trainer.step(batch) has run the backward pass and the optimizer",
                    hint="leave out backward(), optimizer.step() and zero_grad()")

    def __iter__(self) -> Iterator[Any]:  # reached by GradScaler.scale
        raise error("the loss is a number, which cannot be scaled or iterated over",
                    hint="precision='fp16' scales the loss inside; leave torch.amp.GradScaler out")


class Evaluation:
    """Results of a forward pass: `loss` (None without labels), `outputs` by name, `metrics`."""

    def __init__(self, result: dict[str, Any]):
        self.outputs: dict[str, torch.Tensor] = result["outputs"]
        self.metrics: dict[str, torch.Tensor] = result["metrics"]
        self.loss: float | None = result["loss"] if result["labelled"] else None
        self.samples: int = result["samples"]

    def __repr__(self) -> str:
        return f"<rannc.Evaluation of {self.samples} samples: loss {self.loss}, outputs {', '.join(self.outputs)}>"


class Profile:
    """Measured beside planned times of the last steps, in rank 0; empty elsewhere."""

    def __init__(self, found: dict[str, Any]):
        self._found = found

    @property
    def step_ms(self) -> float:
        """Median from the first action of a step to its last."""
        return float(self._found["step_ns"]) / 1e6

    def report(self) -> str:
        """A self-contained page (HTML): losses, planned and measured timeline, cut, memory."""
        return str(self._found["page"])

    def trace(self) -> str:
        """A trace (JSON), which ui.perfetto.dev opens."""
        return str(self._found["trace"])

    def __str__(self) -> str:
        return str(self._found["text"]).rstrip()

    def _repr_html_(self) -> str:
        return framed(self.report())
