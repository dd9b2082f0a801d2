"""Workers of a notebook or script that nobody has launched."""
from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.spawn import start_processes

from .options import error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _work(rank: int, function: Callable[..., Any], arguments: tuple[Any, ...], devices: int, port: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(devices), LOCAL_WORLD_SIZE=str(devices),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    function(*arguments)


def launch(function: Callable[..., Any], *arguments: Any, devices: int) -> None:
    """Calls `function(*arguments)` in `devices` new processes of this machine, as under torchrun, and waits for them.

    A function of a notebook or script runs in forks of this process, one of a module in fresh processes. The first
    process that fails ends the others, and its error is raised here.
    """
    if devices < 2:
        raise error(f"is {devices}; expected two or more: one process needs no launch", place="devices")
    if "RANK" in os.environ:
        raise error("this process is a worker already, which a launcher has started: call the function itself")
    method = "fork" if getattr(function, "__module__", "__main__") == "__main__" else "spawn"
    start_processes(  # type: ignore[no-untyped-call, unused-ignore]
        _work, (function, arguments, devices, _free_port()), devices, start_method=method)
