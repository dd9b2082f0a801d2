"""Keyword arguments as the flags of the programs."""
from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from . import _core


class Warning(UserWarning):
    """A probable mistake, or something that a plan lost."""


#: Flags of `rannc-run` that apply to a trainer.
RUN = frozenset({
    "accumulate_as", "amsgrad", "betas", "clip_norm", "decay", "decay_from", "decay_steps", "deterministic",
    "device", "ema", "engine", "epsilon", "final_rate", "group", "insecure", "keep", "late_recompute", "late_sums",
    "learning_rate", "load_library", "loss_scale", "matmul_precision", "momentum", "muon_rate", "nesterov", "no_decay",
    "no_decay_embeddings", "no_cuda_graphs", "optimizer", "seed", "threads", "time_convolutions", "timeout", "transport",
    "warmup_steps", "weight_decay"})
#: Flags of both programs.
SHARED = frozenset({"amsgrad", "ema", "group", "late_sums", "load_library", "matmul_precision", "momentum", "optimizer", "seed"})
#: Flags of `rannc-compile` that the arguments of the functions replace.
_OWN = frozenset({"assume", "batch_size_in_file", "bundle", "emit", "explain", "input", "loss", "output", "output_name",
                  "rebuild", "replace", "summary", "without_weights"})


#: Names in other libraries.
_SYNONYMS = {"lr": "learning_rate", "batch_size": "mini_batch", "global_batch_size": "mini_batch", "criterion": "loss",
             "loss_fn": "loss", "loss_function": "loss", "world_size": "cluster", "devices": "cluster", "gpus": "cluster",
             "num_stages": "stages", "pipeline_stages": "stages", "num_micro_batches": "micro_batches", "chunks": "micro_batches",
             "microbatches": "micro_batches", "gradient_clipping": "clip_norm", "max_grad_norm": "clip_norm",
             "clip_grad_norm": "clip_norm", "checkpoint": "resume", "mixed_precision": "precision", "amp": "precision",
             "eps": "epsilon", "dynamic_shapes": "dynamic", "batch": "example", "sample": "example", "path": "bundle"}
#: Arguments that are no flags.
_NAMED = frozenset({"example", "inputs", "batch_axis", "dynamic", "resume", "progress", "bundle", "replace", "loss", "training"})


def error(cause: str, place: str = "", hint: str = "") -> _core.Error:
    """Returns an error of the package's own, with the same attributes as those of the libraries."""
    text = f"{place}: {cause}" if place else cause
    made = _core.Error(f"{text}\n{hint}" if hint else text)
    made.place, made.cause, made.hint, made.rule = place, cause, hint, ""
    return made


def warn(text: str) -> None:
    """Issues a warning at the line of the user."""
    own = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((*own, contextlib.__file__)):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Warning, stacklevel=level)


def in_python(text: str) -> str:
    """A text with the keyword arguments for the flags in it, `stages=2` for `--stages 2`, and with the module for its file."""
    text = re.sub(r"(?:[^\s:]*/rannc-\w+/)?module\.pt2\b", "the module", text).replace("\nthe module: note: in this file", "")
    text = re.sub(r"[^\s:]*/rannc-\w+/weights\.safetensors\b", "the state", text)
    names = frozenset(_core.compile_flags()) | RUN

    def argument(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        return f"{name}={found[2] or ''}" if name in names else found[0]

    return re.sub(r"--([a-z][a-z-]*[a-z])(?:[ =](\d[\w.]*|'[^']*'|[A-Z]{3,}))?", argument, text)


@contextlib.contextmanager
def reworded() -> Iterator[None]:
    """Errors of the libraries within name arguments instead of flags, and the module instead of its exported file."""
    try:
        yield
    except _core.Error as failure:
        if in_python(str(failure)) == str(failure):
            raise
        made = _core.Error(in_python(str(failure)))
        for name in ("place", "cause", "hint", "rule"):
            setattr(made, name, in_python(getattr(failure, name, "")))
        raise made from failure.__cause__


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Returns keyword arguments as flags: `stages=2` is `--stages=2`, a list repeats its flag, and a dictionary's entries
    are `NAME=VALUE`. `True` is a flag without a value. `None` and `False` are none."""
    made = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, str) and not value:
            raise error("is an empty text", place=f"{name}=")
        if isinstance(value, torch.dtype):
            value = str(value).removeprefix("torch.")
        if isinstance(value, Mapping):
            made += [f"{flag}={key}={each}" for key, each in value.items()]
        elif isinstance(value, Iterable) and not isinstance(value, str):
            made += [f"{flag}={each}" for each in value]
        elif value is True:
            made.append(f"{flag}=true")
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
        if name in RUN:
            raise error(f"{name}= is about training", hint="it is an argument of rannc.Trainer")
        near = [_SYNONYMS[name]] if name in _SYNONYMS else difflib.get_close_matches(name, sorted(known | _NAMED), 1)
        raise error(f"unknown argument {name!r}", hint=f"did you mean {near[0]!r}?" if near else
                    "arguments are the flags of rannc-compile and rannc-run, with _ for -")
    return ({name: value for name, value in options.items() if name in compiling},
            {name: value for name, value in options.items() if name in RUN and (name in SHARED or name not in compiling)})
