"""Tensors of a batch as a program takes them."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from .options import error

#: Types of elements, by the names of the text IR.
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
         "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16,
         "u32": torch.uint32, "u64": torch.uint64, "bool": torch.bool}
_INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32})
#: Tensors up to this size are copied, which takes a small part of the step that reads them.
_COPIED_BYTES = 64 << 20


def fitted(name: str, tensor: torch.Tensor, facts: Mapping[str, Any], samples: Collection[int]) -> torch.Tensor:
    """Returns a tensor as an input takes it: integers may be narrower. Anything else that differs is an error.

    facts: `dtype`, `shape` and `axis` (of the samples; negative: none) of the input
    samples: allowed numbers of samples
    """
    place = f"batch entry {name!r}"
    if tensor.device.type not in ("cpu", "cuda"):
        raise error(f"is on the device {tensor.device}; expected cpu", place=place)
    if tensor.layout != torch.strided:
        raise error(f"has the layout {tensor.layout}; expected a dense tensor", place=place, hint="tensor.to_dense()")
    _check_shape(place, tensor, facts, samples)
    expected = TYPES[facts["dtype"]]
    if tensor.dtype == expected:
        return tensor.detach().resolve_neg()
    if {tensor.dtype, expected} <= _INTEGERS:
        own, wanted = torch.iinfo(tensor.dtype), torch.iinfo(expected)
        if wanted.min <= own.min and own.max <= wanted.max:
            return tensor.to(expected)
    raise error(f"has elements of {tensor.dtype}; expected {expected}", place=place, hint=f"tensor.to({expected})")


def _check_shape(place: str, tensor: torch.Tensor, facts: Mapping[str, Any], samples: Collection[int]) -> None:
    dims, axis = facts["shape"], facts["axis"]
    shown = ", ".join(dim if number != axis else str(max(samples)) for number, dim in enumerate(dims))
    shown += "," if len(dims) == 1 else ""
    fixed = [(number, int(dim)) for number, dim in enumerate(dims) if dim.isdigit() and number != axis]
    if tensor.ndim != len(dims) or any(tensor.shape[number] != size for number, size in fixed):
        raise error(f"has the shape {tuple(tensor.shape)}; expected ({shown})", place=place,
                    hint="sizes that vary are named by dynamic=, samples are counted by batch_axis=")
    if axis < 0 or not dims[axis].isidentifier() or tensor.shape[axis] in samples:
        return
    known = sorted(set(samples), reverse=True)
    wanted = f"1 to {known[0]}" if len(known) > 2 else " or ".join(str(count) for count in known)
    raise error(f"has {tensor.shape[axis]} samples; expected {wanted}, as the mini-batch has {known[0]}", place=place,
                hint="mini_batch= sets another number; drop_last=True of a DataLoader leaves a smaller last batch out")


def digest(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Numbers that differ if leading elements of tensors do, on any machine."""
    made = {}
    for name, tensor in tensors.items():
        data = tensor.detach().reshape(-1)[:4096].cpu().contiguous().view(torch.uint8).to(torch.int64)
        made[name] = int((data * torch.arange(1, len(data) + 1)).sum())
    return made


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that its owner does not write any more: a copy, unless it is large and writes show in its version.

    Memory that is not PyTorch's, as of NumPy, is written without a trace. Pinned memory is copied by the device.
    """
    if tensor.device.type != "cpu" or tensor.is_pinned():
        return tensor
    traced = tensor.untyped_storage().resizable() and not tensor.is_inference()
    return tensor if traced and tensor.nbytes > _COPIED_BYTES else tensor.clone()
