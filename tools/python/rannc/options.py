"""Keyword arguments as the flags of the programs."""
from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from . import _core


class Warning(UserWarning):
    """A probable mistake, or something that a plan lost."""


#: Flags of `rannc-run` that apply to a trainer.
RUN = frozenset({
    "accumulate_as", "amsgrad", "betas", "bucket", "clip_norm", "decay", "decay_from", "decay_steps", "deterministic",
    "device", "ema", "engine", "epsilon", "final_rate", "group", "insecure", "keep", "late_recompute",
    "learning_rate", "load_library", "loss_scale", "matmul_precision", "momentum", "muon_rate", "nesterov", "no_decay",
    "no_decay_embeddings", "no_cuda_graphs", "optimizer", "seed", "threads", "timeout", "transport", "warmup_steps",
    "weight_decay"})
#: Flags of both programs.
SHARED = frozenset({"amsgrad", "ema", "group", "load_library", "matmul_precision", "momentum", "optimizer", "seed"})
#: Flags of `rannc-compile` that the arguments of the functions replace.
_OWN = frozenset({"assume", "batch_size_in_file", "bundle", "emit", "explain", "input", "loss", "output", "output_name",
                  "rebuild", "replace", "summary", "without_weights"})


def error(cause: str, place: str = "", hint: str = "") -> _core.Error:
    """Returns an error of the package's own, with the same attributes as those of the libraries."""
    text = f"{place}: {cause}" if place else cause
    made = _core.Error(f"{text}\n{hint}" if hint else text)
    made.place, made.cause, made.hint, made.rule = place, cause, hint, ""
    return made


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Returns keyword arguments as flags: `stages=2` is `--stages=2`, a list repeats its flag, and a dictionary's entries
    are `NAME=VALUE`. `True` is a flag without a value. `None` and `False` are none."""
    made = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, Mapping):
            made += [f"{flag}={key}={each}" for key, each in value.items()]
        elif isinstance(value, Iterable) and not isinstance(value, str):
            made += [f"{flag}={each}" for each in value]
        elif value is True:
            made.append(flag)
        elif value is not None and value is not False:
            made.append(f"{flag}={value}")
    return made


def divided(options: Mapping[str, Any], runs: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the options of `rannc-compile` and those of `rannc-run`. A name of neither is an error that suggests one."""
    compiling = frozenset(_core.compile_flags()) - _OWN
    known = compiling | RUN if runs else compiling
    for name in options:
        if name in known:
            continue
        near = difflib.get_close_matches(name, sorted(known), 1)
        raise error(f"unknown argument {name!r}", hint=f"did you mean {near[0]!r}?" if near else
                    "arguments are the flags of rannc-compile and rannc-run, with _ for -")
    return ({name: value for name, value in options.items() if name in compiling},
            {name: value for name, value in options.items() if name in RUN and (name in SHARED or name not in compiling)})
