"""Plans and bundles of modules."""
from __future__ import annotations

import dataclasses
import html
import os
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import _core
from .export import Exported, LossFunction, export
from .layout import Batch, Layout
from .optimizer import Settings
from .options import arguments, divided, error, in_python, reworded, warn
from .tracing import counters_of

#: Receives the kind (`phase`, `step`, `remark`, `note`) and a line of text.
Progress = Callable[[str, str], None]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a plan."""
    first_task: str
    last_task: str
    tasks: int
    devices: list[str]  #: replicas
    forward_ms: float  #: of a micro-batch
    backward_ms: float
    peak_bytes: int  #: of its fullest device, with all stages of that device
    memory_bytes: int  #: memory of that device, of which `memory=` may allow less; 0: unknown
    recompute: bool


def framed(page: str) -> str:
    """A page as a part of a notebook."""
    return f'<iframe srcdoc="{html.escape(page, quote=True)}" style="width: 100%; height: 640px; border: 0"></iframe>'


class Plan:
    """A verified plan of a model for a cluster."""

    def __init__(self, planned: _core.Planned):
        self._planned = planned
        #: Everything that is known, by the names of `PlanFacts` of the C++ library.
        self.facts: dict[str, Any] = planned.facts()

    @property
    def stages(self) -> list[Stage]:
        return [Stage(forward_ms=facts.pop("forward_ns") / 1e6, backward_ms=facts.pop("backward_ns") / 1e6, **facts)
                for facts in (dict(each) for each in self.facts["stages"])]

    @property
    def step_ms(self) -> float:
        """Predicted time of a step of a mini-batch."""
        return float(self.facts["step_ns"]) / 1e6

    @property
    def gap(self) -> float | None:
        """Relative distance of the objective to `facts["lower_bound"]`; None if no bound is known."""
        gap: float | None = self.facts["gap"]
        return gap

    @property
    def schedule(self) -> str:
        return str(self.facts["schedule"])

    @property
    def micro_batches(self) -> int:
        return int(self.facts["micro_batches"])

    def explain(self) -> str:
        """Describes the bottleneck, the plans that lost, and what would help. Plans again for each remedy."""
        return self._planned.explain()

    def text(self) -> str:
        """The plan as text IR, which `rannc-compile --plan` takes, also edited."""
        return self._planned.text()

    def report(self) -> str:
        """A self-contained page (HTML) with the planned timeline, the cut and the memory."""
        return self._planned.report()

    def __str__(self) -> str:
        return self._planned.summary().rstrip()

    def __repr__(self) -> str:
        return f"<rannc.Plan: {len(self.facts['stages'])} stages, {self.schedule}, {self.step_ms:.3f} ms a step>"

    def _repr_html_(self) -> str:
        return framed(self.report())


class Bundle:
    """A compiled model: a folder that `Trainer` and `rannc-run` open."""

    def __init__(self, path: str, plan: Plan | None = None, layout: Layout | None = None,
                 parameters: Mapping[int, list[str]] | None = None, in_loss: Mapping[str, nn.Module] | None = None,
                 counters: Mapping[str, int] | None = None):
        self.path, self.plan = path, plan
        self.layout, self.parameters = layout, parameters
        self.in_loss, self.counters = dict(in_loss or {}), dict(counters or {})

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<rannc.Bundle {self.path}>"


#: What `Plan.gap` says.
_FACTS = ("the search stopped at its budget of simulated actions", "not proved optimal")


class Reporter:
    """Shows what a compilation does, and turns its findings into warnings of Python."""

    def __init__(self, progress: Progress | bool | None):
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise error(f"is {progress!r}; expected a function of a kind and a text, True, False or None", place="progress")
        self._bar: Any = None
        self._failure: BaseException | None = None  # of the function
        self._progress = progress if callable(progress) else None
        if progress is None or progress is True:
            self._bar = _tqdm(progress is True)
        self._warned: list[str] = []

    def __call__(self, kind: str, text: str) -> None:
        if kind == "warning":
            self._warned.append(text)
        elif self._progress is not None and self._failure is None:
            try:
                self._progress(kind, text)
            except BaseException as failure:  # raised in the thread of the caller
                self._failure = failure
        elif self._bar is not None:
            self._bar.set_description_str(f"rannc: {text}")

    def end(self) -> None:
        """Issues the warnings, and raises the error of the function, in the thread of the caller."""
        if self._bar is not None:
            self._bar.close()
        for text in self._warned:
            if not text.startswith(_FACTS):
                warn(in_python(text))
        self._warned = []
        if self._failure is not None:
            raise self._failure


def _tqdm(requested: bool) -> Any:
    """A line of `tqdm`, if that is installed and somebody looks."""
    if not requested and not sys.stderr.isatty():
        return None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None
    return tqdm(bar_format="{desc} [{elapsed}]", leave=False)


def in_background(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """Returns the result of `work`, which runs in a thread of its own. Ctrl-C calls `interrupt`; a second one is raised."""
    with ThreadPoolExecutor(1, "rannc") as executor:
        future = executor.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            if future.done():
                raise
            interrupt()
            return future.result()


def _read(program: Exported, flags: Mapping[str, Any], with_weights: bool, reporter: Reporter) -> _core.Read:
    own: dict[str, Any] = {"output_name": program.outputs, "assume": program.sizes}
    if program.has_loss:
        own["loss"] = f"in_graph(output={program.outputs[0]})"
    if not with_weights:
        own["without_weights"] = True
    content, weights = program.in_memory(with_weights)
    capsules = {name: tensor.__dlpack__() for name, tensor in weights.items()}
    known: dict[str, Any] = {"mini_batch": program.samples}
    if program.batch:
        known["batch_symbol"] = program.batch
    return _core.read_memory("module.pt2", content, capsules, arguments({**known, **flags, **own}), reporter)


def _planned(read: _core.Read, for_bundle: bool, reporter: Reporter) -> Plan:
    stop = _core.Stop()
    made = Plan(in_background(lambda: read.plan(for_bundle, reporter, stop), stop.request))
    for line in read.report().splitlines():
        kind, _, text = line.partition("  ") if line.startswith("trains") else line.partition("not done ")
        divided_not = "is not divided, but runs as one micro-batch" in text or text.startswith("its batch size is static")
        if divided_not and len(made.facts["stages"]) > 1:
            reporter("warning", f"nothing overlaps, and stages run one after another: {text.strip()}")
        if text.startswith("output") and (" is excluded" in text or " are excluded" in text):
            reporter("warning", f"evaluations do not return all outputs of the module: {text}")
        if re.search("batch normalisations? over the samples of a micro-batch", text):
            _warn_of_statistics(made, text.endswith("on all replicas: losses depend on the number of micro-batches"), reporter)
    return made


def _warn_of_statistics(plan: Plan, synchronised: bool, reporter: Reporter) -> None:
    """Warns of batch normalization over fewer samples than those of a mini-batch. Which stage it is in is not known."""
    replicas = [1 if synchronised else len(stage.devices) for stage in plan.stages]
    all_samples = plan.facts["mini_batch"]
    samples = all_samples // plan.micro_batches // max(replicas)
    if samples >= all_samples:
        return
    remedy = "micro_batches=1" if max(replicas) == 1 else "sync_batch_norm=True with micro_batches=1"
    where = "" if min(replicas) == max(replicas) else f" in a stage of {max(replicas)} replicas"
    reporter("warning", f"batch normalization has the statistics of {samples} samples{where}, where one device has those of the "
             f"{all_samples} of the mini-batch: {remedy} computes the same")


def check_kind(net: Any) -> None:
    """Refuses what is neither a module nor a path."""
    if isinstance(net, (nn.Module, str, os.PathLike, Bundle)):
        return
    found = f"the class {net.__name__}" if isinstance(net, type) else f"a {type(net).__name__}"
    raise error(f"is {found}; expected a module, or the path of a model file or bundle", place="net",
                hint=f"{net.__name__}(…) makes a module" if isinstance(net, type) else "")


def _synchronised(net: nn.Module, flags: dict[str, Any]) -> dict[str, Any]:
    """The flags, with synchronised batch normalization if the module has it by itself. It is of all layers then."""
    has = any(isinstance(module, nn.SyncBatchNorm) and module.training for module in net.modules())
    return {"sync_batch_norm": True, **flags} if has else flags


def _on_meta(net: nn.Module, example: Batch) -> Batch:
    """The example on the meta device, if the module is there."""
    first = next(net.parameters(), None)
    if first is None or first.device.type != "meta":
        return example
    moved: Batch = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), example)
    return moved


@reworded()
def plan(net: nn.Module | str | os.PathLike[str], example: Batch | None = None, *, loss: LossFunction | None = None,
         optimizer: Any = None, inputs: Any = None, batch_axis: Any = 0, dynamic: Any = None, training: bool = True,
         progress: Progress | bool | None = None, **options: Any) -> Plan:
    """Plans a module, or a model file, without its weights and without the devices. Parameters may be on the meta device.

    Arguments are those of `compile`. `training=False` plans the forward pass alone.
    """
    check_kind(net)
    flags, _ = divided(options, runs=False)
    reporter = Reporter(progress)
    try:
        if not isinstance(net, nn.Module):
            return _planned(_core.read(os.fspath(net), arguments(flags), reporter), False, reporter)
        if example is None:
            raise error("is missing: a batch as the module takes it, whose numbers do not matter", place="example")
        program = export(net, _on_meta(net, example), loss=loss, inputs=inputs, batch_axis=batch_axis, dynamic=dynamic,
                         evaluates=not training, optimizer=optimizer)
        flags.setdefault("costs", "analytic")
        flags.update(_optimizer_flags(optimizer, program))
        flags = _synchronised(net, flags) if training else flags
        return _planned(_read(program, flags, False, reporter), False, reporter)
    finally:
        reporter.end()


def _optimizer_flags(optimizer: Any, program: Exported) -> dict[str, Any]:
    if optimizer is None:
        return {}
    if isinstance(optimizer, str):
        return {"optimizer": optimizer}
    settings = Settings(optimizer, program.parameters)
    flags = settings.flags()
    settings.release()
    return flags


@reworded()
def compile(net: nn.Module | str | os.PathLike[str], example: Batch | None = None, path: str | os.PathLike[str] = "", *,
            loss: LossFunction | None = None, optimizer: Any = None, inputs: Any = None, batch_axis: Any = 0,
            dynamic: Any = None, training: bool = True, replace: bool = False, progress: Progress | bool | None = None,
            **options: Any) -> Bundle:
    """Compiles a module, or a model file, into the bundle `path`.

    net: a module that `torch.export` takes, or the path of a model file or bundle
    example: a batch of two or more samples, as `Trainer.step` gets it: a tensor, or a dictionary or tuple of tensors.
        Its number of samples is the mini-batch, unless `mini_batch=` is another.
    loss: a function of the module's outputs and the batch, which returns a tensor without axes. None: the module
        returns its loss: alone, as the output `loss`, or as the first of its outputs. Parameters of a loss that is a
        module, or of modules that it reads by variables, are trained if the optimizer has them.
    optimizer: an object of `torch.optim` or several, or a name; determines the memory of its state
    inputs: entries of the batch that the module takes, as keys or as a number of leading entries. None: those named as
        parameters of `forward`; of a tuple, as many as `forward` requires.
    batch_axis: axis of the samples; a dictionary by entry, in which None is an entry without samples
    dynamic: names of other sizes that vary, by entry and axis: `{"tokens": {1: "sequence"}}`
    training: False: the bundle evaluates, and needs no loss
    replace: overwrite an existing bundle
    progress: a function of a kind and a text; True and None: a line of `tqdm`, None only on a terminal; False: nothing
    options: flags of `rannc-compile`, such as `cluster="local:2"`, `stages=2`, `memory="8GiB"`

    Raises `Error` for a module, loss or option that does not fit. Ctrl-C ends the search with the best plan so far.
    """
    check_kind(net)
    flags, _ = divided(options, runs=False)
    reporter = Reporter(progress)
    try:
        return compiled(net, example, os.fspath(path), dict(loss=loss, inputs=inputs, batch_axis=batch_axis,
                                                            dynamic=dynamic, evaluates=not training),
                        optimizer, flags, replace, reporter)[0]
    finally:
        reporter.end()


def compiled(net: Any, example: Batch | None, path: str, exporting: dict[str, Any], optimizer: Any, flags: dict[str, Any],
             replace: bool, reporter: Reporter) -> tuple[Bundle, Settings | None]:
    """Compiles, and returns the settings of an optimizer of the user for what the bundle trains."""
    if not path:
        raise error("is missing: the folder of the bundle to write", place="path")
    if not isinstance(net, nn.Module):
        read = _core.read(os.fspath(net), arguments({**flags, **({"optimizer": optimizer} if optimizer else {})}), reporter)
        planned = _planned(read, True, reporter)
        planned._planned.write(path, replace, stage_program(), reporter)
        return Bundle(path, planned), None
    if example is None:
        raise error("is missing: a batch as the module takes it", place="example")
    _check_device(net)
    program = export(net, example, optimizer=optimizer, **exporting)
    settings = None
    if not exporting["evaluates"]:
        flags = _synchronised(net, flags)
    if optimizer is not None and not isinstance(optimizer, str):
        settings = Settings(optimizer, program.parameters)
        flags = {**flags, **settings.flags()}
    elif optimizer is not None:
        flags = {**flags, "optimizer": optimizer}
    try:
        read = _read(program, flags, True, reporter)
        if settings is not None:
            settings.use_trained(read.trained())
        planned = _planned(read, True, reporter)
        planned._planned.write(path, replace, stage_program(), reporter)
    except BaseException:
        if settings is not None:
            settings.release()
        raise
    counters = counters_of(program.program)
    return Bundle(path, planned, program.layout, program.parameters, program.in_loss, counters), settings


def _check_device(net: nn.Module) -> None:
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if tensor.device.type == "meta":
            raise error("is on the meta device and has no numbers to train", place=name,
                        hint="rannc.plan() takes such modules; net.to_empty(device='cpu') and your weights make it trainable")


def stage_program() -> str:
    """The program that becomes the executable of each stage: that of the installation, if it is there."""
    found = Path(__file__).resolve().parent / "bin" / "rannc-stage"
    return str(found) if found.exists() else ""


@reworded()
def read(path: str | os.PathLike[str], **options: Any) -> _core.Read:
    """Reads a model file (ONNX, TorchScript, torch.export, text) or a bundle and runs the passes. The result reports
    what was recovered and changed: `report()`, `text()`, `trained()`."""
    flags, _ = divided(options, runs=False)
    reporter = Reporter(False)
    try:
        return _core.read(os.fspath(path), arguments(flags), reporter)
    finally:
        reporter.end()
