"""Starts the programs of the package, which lie in its folder `bin`: console scripts call this module.

It imports no LibTorch, so that a program starts at once.
"""
import importlib.util
import os
import pathlib
import sys
from typing import NoReturn

_PACKAGE = pathlib.Path(__file__).resolve().parent


def torch_folders() -> list[str]:
    """Folders with LibTorch and its CUDA libraries; none if they are not installed."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return []
    site = pathlib.Path(found.origin).parent.parent
    return [str(folder) for folder in [site / "torch" / "lib", *sorted(site.glob("nvidia/*/lib"))]]


def environment() -> dict[str, str]:
    """The environment of a program. Only if LibTorch is not installed beside the package does it name LibTorch's folder."""
    made = dict(os.environ)
    if (_PACKAGE.parent / "torch" / "lib" / "libtorch_cpu.so").exists():
        return made
    known = made.get("LD_LIBRARY_PATH")
    made["LD_LIBRARY_PATH"] = os.pathsep.join(torch_folders() + ([known] if known else []))
    return made


def _execute(name: str) -> NoReturn:
    program = _PACKAGE / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: error: {program} does not exist: this package was not installed from a wheel")
    os.execve(program, [name, *sys.argv[1:]], environment())


def check() -> NoReturn:
    _execute("rannc-check")


def compile() -> NoReturn:
    _execute("rannc-compile")


def opt() -> NoReturn:
    _execute("rannc-opt")


def profile() -> NoReturn:
    _execute("rannc-profile")


def run() -> NoReturn:
    _execute("rannc-run")


def stage() -> NoReturn:
    _execute("rannc-stage")


def zoo() -> NoReturn:
    _execute("rannc-zoo")
