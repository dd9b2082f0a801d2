"""Files of weights (safetensors), states of modules, checkpoints."""
from __future__ import annotations

import ctypes
import json
import os
import struct
from collections.abc import Mapping

import torch
from torch import nn

from .options import error

_TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "I8": torch.int8,
          "I16": torch.int16, "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8, "U16": torch.uint16,
          "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def _memory(data: torch.Tensor) -> ctypes.Array[ctypes.c_ubyte]:
    """The memory of a tensor of bytes. `numpy` is not among PyTorch's requirements."""
    return (ctypes.c_ubyte * data.numel()).from_address(data.data_ptr())


def read_weights(path: str) -> dict[str, torch.Tensor]:
    """Returns the tensors of a file that the runtime has written."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = torch.empty(os.path.getsize(path) - 8 - size, dtype=torch.uint8)
        file.readinto(_memory(data))
    header.pop("__metadata__", None)
    return {name: data[slice(*entry["data_offsets"])].clone().view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def last_checkpoint(folder: str | os.PathLike[str]) -> int:
    """Steps of the last checkpoint in the folder of a run; 0 without one."""
    path = os.path.join(folder, "checkpoints")
    names = os.listdir(path) if os.path.isdir(path) else []
    return max((int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdecimal()), default=0)


def check_constants(state: Mapping[str, torch.Tensor], constants: Mapping[str, torch.Tensor]) -> None:
    """Refuses a state with other numbers than the constants of a program."""
    for name, wanted in constants.items():
        if name in state and not torch.equal(state[name].detach().to(wanted), wanted):
            raise error("differs from the module's, which is a constant of the program", place=name,
                        hint="load the state into the module, and make another trainer")


def copy_to(net: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Copies a state into a module that has all of it."""
    own = net.state_dict()
    unexpected = sorted(set(state) - set(own))
    if unexpected:
        raise error(f"does not have {unexpected[0]!r}" + (f" and {len(unexpected) - 1} more" if unexpected[1:] else ""),
                    place="net", hint="give a module of the class that was compiled")
    for name, tensor in state.items():
        if tensor.shape != own[name].shape:
            raise error(f"{name!r} has the shape {tuple(own[name].shape)}; the trainer has {tuple(tensor.shape)}", place="net",
                        hint="give a module of the class that was compiled")
    net.load_state_dict(state, strict=False)


def write_weights(path: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes tensors under their names."""
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise error(f"has elements of {tensor.dtype}, which files of weights cannot have", place=name)
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + data.numel()]}
        parts.append(data)
        at += data.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            file.write(_memory(part))
