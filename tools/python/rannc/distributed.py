"""The processes of a run: who compiles, and how the others get the bundle."""
from __future__ import annotations

import itertools
import os
import pickle
import shutil
import socket
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from .options import error
from .weights import read_weights

_CHUNK = 4 << 20
#: Seconds for another process to arrive, beside what rank 0 needs to compile.
_ARRIVAL = 1800
_numbers = itertools.count()


def _first(*names: str) -> int | None:
    for name in names:
        if name in os.environ:
            if not os.environ[name].isdecimal():
                raise error(f"is {os.environ[name]!r}; expected a whole number", place=name)
            return int(os.environ[name])
    return None


class World:
    """The processes that torchrun, mpirun or srun has started with the same script, and the store between them."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self.round = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}-{next(_numbers)}"
        self._received: list[str] = []
        self._files = itertools.count()
        self._store: Any = c10d.PrefixStore(f"rannc/{self.round}", _store(rank, size))

    @staticmethod
    def found() -> World | None:
        """The world of this process; None if it is alone."""
        size = _first("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
        rank = _first("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
        if size is None or size < 2:
            return None
        if rank is None:
            raise error(f"{size} processes were started, but none of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK and "
                        "SLURM_PROCID says which one this is")
        if rank >= size:
            raise error(f"this process has rank {rank} of {size}; expected 0 to {size - 1}")
        return World(rank, size)

    def bundle(self, compile: Callable[[], str], timeout: float) -> str:
        """Returns the path of the bundle that rank 0 makes, on this machine. An error of rank 0 is one of all."""
        if self.rank == 0:
            self._store.set("bundle", pickle.dumps(_outcome(compile)))
        path, failure = pickle.loads(self._get("bundle", timeout))
        if failure is not None:
            raise error(failure if self.rank == 0 else f"rank 0: {failure}")
        sees = _same_host(self) and os.path.exists(os.path.join(path, "manifest.json"))
        self._store.set(f"sees/{self.rank}", str(int(sees)))
        if self.rank == 0:
            for rank in range(1, self.size):
                if self._get(f"sees/{rank}", _ARRIVAL, f"rank {rank}") == b"0":
                    self._send(path, rank)
        return path if sees else self._receive(timeout)

    def _get(self, key: str, timeout: float, of: str = "rank 0") -> bytes:
        try:
            self._store.wait([key], timedelta(seconds=timeout))
            return bytes(self._store.get(key))
        except dist.DistNetworkError as failure:
            raise error("the store of the processes is gone: the process that serves it, rank 0 or torchrun, has ended") from failure
        except dist.DistStoreError as failure:
            raise error(f"waited {timeout:.0f} s for {of}, which has not made the same call",
                        hint="all processes make the same calls of rannc; has one ended early?") from failure

    def all_given(self, key: str, value: Any, timeout: float) -> list[Any]:
        """Returns what each process has given."""
        self._store.set(f"{key}/{self.rank}", pickle.dumps(value))
        return [pickle.loads(self._get(f"{key}/{rank}", timeout, f"rank {rank}")) for rank in range(self.size)]

    def _send(self, path: str, rank: int) -> None:
        from . import _core
        names = _core.files_of_device(path, rank)
        self._store.set(f"files/{rank}", pickle.dumps(names))
        for name in names:
            self._send_file(os.path.join(path, name), f"file/{rank}/{name}")

    def _receive(self, timeout: float) -> str:
        folder = tempfile.mkdtemp(prefix="rannc-", suffix=".rannc")
        self._received.append(folder)
        for name in pickle.loads(self._get(f"files/{self.rank}", timeout)):
            self._receive_file(os.path.join(folder, name), f"file/{self.rank}/{name}", timeout)
        return folder

    def _send_file(self, path: str, key: str) -> None:
        with open(path, "rb") as file:
            chunks = 0
            while chunk := file.read(_CHUNK):
                self._store.set(f"{key}/{chunks}", chunk)
                chunks += 1
        self._store.set(key, str(chunks))

    def _receive_file(self, path: str, key: str, timeout: float) -> None:
        chunks = int(self._get(key, timeout))
        with open(path, "wb") as file:
            for number in range(chunks):
                file.write(self._get(f"{key}/{number}", timeout))
                self._store.delete_key(f"{key}/{number}")

    def close(self) -> None:
        """Removes what this process has received."""
        for folder in self._received:
            shutil.rmtree(folder, ignore_errors=True)

    def weights(self, path: str, timeout: float = 300) -> dict[str, torch.Tensor]:
        """Returns the tensors of a file that rank 0 has written, also to processes of other hosts."""
        number = next(self._files)
        sees = _same_host(self) and os.path.exists(path)
        self._store.set(f"weights/{number}/{self.rank}", str(int(sees)))
        if self.rank == 0:
            blind = [rank for rank in range(1, self.size) if self._get(f"weights/{number}/{rank}", timeout) == b"0"]
            for rank in blind:
                self._send_file(path, f"weights/{number}/file/{rank}")
        if sees:
            return read_weights(path)
        with tempfile.NamedTemporaryFile(prefix="rannc-") as file:
            self._receive_file(file.name, f"weights/{number}/file/{self.rank}", timeout)
            return read_weights(file.name)

    def share(self, key: str, value: Any = None, timeout: float = 300) -> Any:
        """Returns what rank 0 has given."""
        if self.rank == 0:
            self._store.set(key, pickle.dumps(value))
        return pickle.loads(self._get(key, timeout))


def _outcome(compile: Callable[[], str]) -> tuple[str, str | None]:
    try:
        return os.path.abspath(compile()), None
    except Exception as failure:  # the others wait for it
        return "", str(failure) or type(failure).__name__


def _same_host(world: World) -> bool:
    own = f"{socket.gethostname()} {_boot()}"
    return bool(world.share("host", own) == own)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _store(rank: int, size: int) -> Any:
    """The store of an initialised process group, of torchrun, or one at MASTER_PORT."""
    if dist.is_initialized():
        return c10d._get_default_store()
    lacking = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if lacking:
        raise error(f"{' and '.join(lacking)} is not set, where the processes meet",
                    hint="torchrun sets it; with mpirun and srun, export MASTER_ADDR=<host of rank 0> MASTER_PORT=<free port>")
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    host, port = os.environ["MASTER_ADDR"], _first("MASTER_PORT") or 0
    try:
        return dist.TCPStore(  # type: ignore[attr-defined, unused-ignore]
            host, port, size, serves, wait_for_workers=False)
    except dist.DistError as failure:
        what = "serve" if serves else "reach"
        raise error(f"rank {rank} cannot {what} the store of the processes at {host}:{port}: {str(failure).splitlines()[0]}",
                    hint="MASTER_ADDR and MASTER_PORT name the host of rank 0 and a free port there; has rank 0 ended?") from failure
