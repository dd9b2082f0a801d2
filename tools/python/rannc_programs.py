"""Starts the programs in the folder `bin` of the package `rannc`: console scripts call this module.

It is not in the package, because the import of that takes PyTorch's seconds.
"""
import importlib.util
import os
import pathlib
import sys
from typing import NoReturn

_LIBTORCH = pathlib.Path("torch", "lib")


def _site_of(package: str) -> pathlib.Path:
    """The folder with the package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        sys.exit(f"error: Python's package `{package}` is not installed for {sys.executable}")
    return pathlib.Path(found.origin).resolve().parent.parent


def _environment(site: pathlib.Path) -> dict[str, str]:
    """The environment of a program. Only if LibTorch is not installed beside the package does it name LibTorch's folder."""
    made = dict(os.environ)
    if not (site / _LIBTORCH / "libtorch_cpu.so").exists():
        known = made.get("LD_LIBRARY_PATH")
        made["LD_LIBRARY_PATH"] = os.pathsep.join([str(_site_of("torch") / _LIBTORCH)] + ([known] if known else []))
    return made


def _execute(name: str) -> NoReturn:
    site = _site_of("rannc")
    program = site / "rannc" / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: error: {program} does not exist: `rannc` was not installed from a wheel")
    os.execve(program, [name, *sys.argv[1:]], _environment(site))


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
