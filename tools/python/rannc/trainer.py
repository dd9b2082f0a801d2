"""Training of a module or bundle, step by step."""
from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import nn
from torch.utils import dlpack

from . import _core, poison
from .adopted import modules_in_loss, within
from .batches import digest, fitted, kept
from .carried import Watched, WatchedTensors
from .compiler import Bundle, Progress, Reporter, check_kind, compiled
from .distributed import World
from .export import LossFunction, names_of_parameters, owners_of, unwrapped
from .layout import Batch, Layout, check_known, layout_of
from .optimizer import Settings, refuse_settings
from .options import arguments, divided, error, reworded, warn
from .results import Evaluation, Loss, Profile
from .weights import check_constants, copy_to, last_checkpoint, read_weights


class Trainer:
    """Trains a module on the devices of a cluster, with the numbers of one device.

    net: a module that `torch.export` takes, a bundle, or its path
    example, loss, inputs, batch_axis, dynamic: as of `compile`, for a module
    optimizer: an object of `torch.optim`, or a list of such, whose groups and rates are read before each step, so that
        schedulers and own changes have an effect; or a name, with `learning_rate=` and other flags of `rannc-run`
    bundle: folder for the compiled module, which `rannc-run` opens, too; None: a temporary one
    replace: overwrite an existing bundle
    resume: folder of a run, from whose latest checkpoint to continue: of `save`, or the output of `rannc-run`
    tensor_heap: False: leave PyTorch's allocator as it is. The heap keeps freed memory of all tensors on the processor, for
        the rest of the process, which saves up to a tenth of a step
    progress: as of `compile`
    options: flags of `rannc-compile` and `rannc-run`: `cluster="local:2"`, `stages=2`, `clip_norm=1`, `seed=0`

    The parameters of the module are copied when the trainer is made; `to_module` copies them back. In several processes
    (torchrun, mpirun, srun) all make the same calls, each runs one device, and rank 0 compiles. Otherwise all devices
    are threads of this process. While a trainer is open, PyTorch's operators use `threads` threads (default: 1).

    Not thread-safe. A step that fails closes the trainer. `with` closes it, and so does its end.
    """

    @reworded()
    def __init__(self, net: nn.Module | Bundle | str | os.PathLike[str], example: Batch | None = None, *,
                 loss: LossFunction | None = None, optimizer: Any = None, inputs: Any = None, batch_axis: Any = 0,
                 dynamic: Any = None, bundle: str | os.PathLike[str] | None = None, replace: bool = False,
                 resume: str | os.PathLike[str] | None = None, tensor_heap: bool = True,
                 progress: Progress | bool | None = None, **options: Any):
        self._closers = contextlib.ExitStack()
        self._settings: Settings | None = None
        self._pending: Future[dict[str, Any]] | None = None
        self._losses: list[float] = []
        self._folders = set()
        self._process = os.getpid()
        self._worker: list[int] = []  # identity of the thread of the steps
        check_kind(net)
        for name, value in (("bundle", bundle), ("resume", resume)):
            if value is not None and not isinstance(value, (str, os.PathLike)):
                raise error(f"is {value!r}; expected the path of a folder", place=name)
        if isinstance(net, nn.Module):
            net = unwrapped(net)
        elif loss is not None or example is not None:
            raise error(f"is about compiling, but {os.fspath(net)} is a bundle, which has its loss",
                        place="loss" if loss is not None else "example")
        self._net = net if isinstance(net, nn.Module) else None
        compiling, running = divided(options, runs=True)
        if tensor_heap:
            _core.use_tensor_heap()
        if optimizer is not None and not isinstance(optimizer, str):
            refuse_settings(options)
        reporter = Reporter(progress)
        try:
            self._world = World.found()
            if self._world is not None:
                self._closers.callback(self._world.close)
            exporting = dict(loss=loss, inputs=inputs, batch_axis=batch_axis, dynamic=dynamic, evaluates=False)
            made = self._compiled(net, example, exporting, optimizer, compiling, bundle, replace, reporter)
            self._open(made, optimizer, running, options)
            if self._net is not None:
                self._watched = Watched(owners_of(self._net, self._net.forward, loss), self._net)
            if resume is not None:
                self.load(resume, settings="options" if self._settings else "checkpoint")
        except BaseException:
            self.close()
            raise
        finally:
            reporter.end()

    # --- opening

    def _compiled(self, net: Any, example: Batch | None, exporting: dict[str, Any], optimizer: Any,
                  compiling: dict[str, Any], path: Any, replace: bool, reporter: Reporter) -> Bundle:
        if not isinstance(net, nn.Module):
            return self._found(net, optimizer, compiling, path)
        if self._world is not None:
            compiling.setdefault("cluster", f"local:{self._world.size}")
        made: list[Bundle] = []

        def compile_here() -> str:
            target = os.fspath(path) if path is not None else os.path.join(self._temporary(), "module.rannc")

            def compile_with(flags: dict[str, Any], replaces: bool) -> Bundle:
                result, self._settings = compiled(net, example, target, exporting, optimizer, flags, replaces, reporter)
                return result

            made.append(compile_with(compiling, replace))
            if self._world is not None and self._idle(made[0]) != 0:
                self._check_idle(made.pop(), compiling)
                if self._settings is not None:
                    self._settings.release()
                made.append(compile_with({**compiling, "stages": self._world.size}, True))
            return target

        if self._world is None:
            compile_here()
            return made[0]
        local = self._world.bundle(compile_here, timeout=86400)
        if made:
            return made[0]
        return self._beside(net, example, exporting, optimizer, local)

    def _idle(self, bundle: Bundle) -> int:
        """Processes for which the plan has no device."""
        assert self._world is not None and bundle.plan is not None
        return self._world.size - len({device for stage in bundle.plan.stages for device in stage.devices})

    def _check_idle(self, bundle: Bundle, compiling: Mapping[str, Any]) -> None:
        assert self._world is not None
        idle, size = self._idle(bundle), self._world.size
        if idle < 0:
            raise error(f"the plan has {size - idle} devices, but {size} processes were started",
                        hint=f"start one for each, or plan for {size}: cluster='local:{size}'")
        if any(name in compiling for name in ("stages", "max_stages", "replicas", "devices", "plan", "pin")):
            raise error(f"the plan has no work for {idle} of {size} processes",
                        hint=f"stages={size} is a pipeline of all, replicas=[{size}] divides the samples; or start {size - idle}")
        warn(f"the best plan has no work for {idle} of {size} processes, so that stages={size} was planned: replicas=[{size}] "
             "divides the samples instead")

    def _beside(self, net: nn.Module, example: Batch | None, exporting: dict[str, Any], optimizer: Any, path: str) -> Bundle:
        """The bundle of rank 0 in another process, with the layout and the optimizer of this one."""
        if example is None:
            raise error("is missing: a batch as the module takes it", place="example")
        in_loss = modules_in_loss(net, exporting["loss"], optimizer)
        with within(net, in_loss):
            parameters = names_of_parameters(net)
        if optimizer is not None and not isinstance(optimizer, str):
            self._settings = Settings(optimizer, parameters)
        counters = {f"{name}.num_batches_tracked": 1 for name, module in net.named_modules() if module.training}
        return Bundle(path, None, layout_of(example, net), parameters, in_loss, counters)

    def _found(self, net: Any, optimizer: Any, compiling: dict[str, Any], path: Any) -> Bundle:
        wrong = [name for name in compiling if name not in divided({name: 0 for name in compiling}, True)[1]]
        if wrong:
            raise error(f"{wrong[0]}= is about compiling, but {os.fspath(net)} is a bundle",
                        hint="rannc.compile(bundle, path=…, …) plans its model again")
        if path is not None:
            raise error("bundle= names the folder for a module; the first argument is a bundle already")
        if optimizer is not None and not isinstance(optimizer, str) and getattr(net, "parameters", None) is None:
            raise error("an object of torch.optim needs the module whose parameters it has",
                        hint="name the optimizer: optimizer='adamw', learning_rate=…")
        made = net if isinstance(net, Bundle) else Bundle(os.fspath(net))
        if optimizer is not None and not isinstance(optimizer, str):
            self._settings = Settings(optimizer, dict(made.parameters or {}))
        return made

    def _temporary(self) -> str:
        folder = tempfile.mkdtemp(prefix="rannc-")
        self._closers.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _open(self, bundle: Bundle, optimizer: Any, running: dict[str, Any], options: dict[str, Any]) -> None:
        self.bundle = bundle
        flags = dict(running)
        self._timeout = float(running.get("timeout") or self._timeout)
        if isinstance(optimizer, str):
            flags["optimizer"] = optimizer
        if self._settings is not None:
            flags.update(self._settings.flags())
            flags["learning_rate"] = repr(self._settings.rate())
            self._closers.callback(self._settings.release)
        elif "optimizer" not in flags and bundle.layout is not None:  # of a module: a bundle has an optimizer of its own
            warn("no optimizer= was given: the trainer uses adam"
                 + ("" if "learning_rate" in flags else " with a learning rate of 0.001"))
        threads = options.get("threads", 1)
        if not isinstance(threads, int) or threads < 1:
            raise error(f"is {threads!r}; expected a whole number from 1", place="threads")
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        self._closers.callback(torch.set_num_threads, before)
        self._executor = ThreadPoolExecutor(1, "rannc", initializer=_begin, initargs=(threads, self._worker))
        store = self._world is not None
        round = self._world.round if self._world else ""
        self._session = self._executor.submit(_core.Session, bundle.path, arguments(flags), store, store, round).result()
        self._closers.callback(self._end_session)
        self.facts: dict[str, Any] = self._session.facts()
        if self.facts["note"]:
            warn(self.facts["note"])
        self._layout = bundle.layout or Layout("mapping", tuple(self.facts["inputs"]), tuple(self.facts["inputs"]), True)
        self._needed = self._session.needed()
        if self._settings is not None:
            self._settings.use_trained(name for group in self._session.groups() for name in group["tensors"])
            self._groups: list[str] = []
            self._rate = math.nan
            self._read_settings()
        if self._net is not None:
            self._tracked = {name: int(tensor) for name, tensor in self._net.named_buffers()
                             if name.endswith("num_batches_tracked")}
            self._constants = {name: buffer.clone() for name, buffer in self._net.named_buffers(remove_duplicate=False)
                               if not buffer.is_floating_point() and name not in self._tracked}
            self._modules = {"": self._net, **{f"{name}.": module for name, module in bundle.in_loss.items()}}
            self._closers.callback(poison.remove, self._modules.values())
            poison.add(self._modules.values())
            self._tensors = WatchedTensors(self._modules)

    def _end_session(self) -> None:
        """Also in the thread of the steps, or after its end: the interpreter may drop a trainer anywhere."""
        session, self._session = self._session, None
        self._executor.shutdown(wait=self._worker[-1:] != [threading.get_ident()])
        session.close()

    # --- facts

    @property
    def mini_batch(self) -> int:
        """Samples of a step."""
        return int(self.facts["mini_batch"])

    @property
    def steps_done(self) -> int:
        self._finish()
        return int(self._session.steps_done)

    @property
    def rank(self) -> int:
        return self._world.rank if self._world else 0

    @property
    def needed_samples(self) -> list[range]:
        """Samples of a mini-batch that this process computes, as `Sampler` reads them: all, if it has all devices."""
        return [range(first, last) for first, last in self._needed["ranges"]]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Parameters with equal rules: `rule`, `tensors` (names), `elements`."""
        self._finish()
        merged: dict[str, dict[str, Any]] = {}
        for group in self._session.groups():
            same = merged.setdefault(group["rule"], {"rule": group["rule"], "tensors": [], "elements": 0})
            same["tensors"] += group["tensors"]
            same["elements"] += group["elements"]
        return [group for group in merged.values() if group["elements"]]

    # --- steps

    def step(self, batch: Batch | Sequence[Batch]) -> Loss:
        """Runs forward, backward and optimizer over a mini-batch, or over a list of them, whose gradients are averaged. Running
        statistics of batch normalization are updated once, by all samples, where a loop updates them for each mini-batch.

        Tensors may be changed afterwards; those above 64 MiB only when the step has ended, which is an error in the next
        call otherwise. A process of several may give the whole mini-batch or the `needed_samples` of it. Errors of labels
        and numbers are raised by the next call, or where the loss is read.
        """
        batches = self._several(batch)
        given = [self._given(each) for each in batches]
        whole = [self._is_whole(each) for each in given]
        if any(each != whole[0] for each in whole):
            raise error("some of the batches have all samples of a mini-batch, others a part", place="batch")
        self._finish()
        self._read_settings()
        self._check_surroundings()
        if self._world is not None and self._compared < _COMPARED_STEPS:
            self._compare(given[0] if whole[0] else None)
        mean = len(batches) > 1
        self._has_gradients = False
        self._more_batches += len(batches) - 1

        def run(capsules: list[Any]) -> dict[str, Any]:
            result: dict[str, Any] = self._session.step(capsules, whole[0], mean)
            self._losses.append(result["loss"])
            return result

        return self._submit(given, run)

    def _several(self, batch: Any) -> list[Batch]:
        """The batches of a step. A list of tensors is one batch, as a `DataLoader` makes it, unless a batch is a tensor."""
        if not isinstance(batch, (list, tuple)):
            return [batch]
        if not batch:
            raise error("is empty; expected a batch or several", place="batch")
        is_one = isinstance(batch[0], torch.Tensor) and self._layout.kind != "tensor"
        return [batch] if is_one else list(batch)

    def accumulate(self, batch: Batch) -> Loss:
        """Runs forward and backward over an additional mini-batch of the next step, like `loss.backward()`: gradients add
        up, so that two mini-batches have twice the gradient of their mean. `step` of a list averages instead. Running statistics
        of batch normalization are updated by the step alone, by the samples of all."""
        given = [self._given(batch)]
        self._finish()
        self._has_gradients = True
        self._more_batches += 1
        return self._submit(given, lambda capsules: self._session.accumulate(capsules[0]))

    def evaluate(self, batch: Batch) -> Evaluation:
        """Runs the forward pass of at most a mini-batch, and changes nothing. Computes as `net.eval()` does: dropout is off, also
        that of `F.dropout(h, 0.5)`, and batch normalization has its running statistics. Branches of forward by
        `self.training` are those of the export. Entries that only the loss reads may be missing: at the end of a tuple, anywhere in a dictionary. A process
        of several returns outputs of the samples that it computes."""
        self._finish()
        tensors = self._partly(batch)
        result = self._run(lambda: self._session.evaluate(_capsules(tensors)))
        needed = {name for name in self.facts["inputs"]}
        return Evaluation({**_converted(result), "labelled": self.facts["training"] and needed <= set(tensors)})

    def _partly(self, batch: Batch) -> dict[str, torch.Tensor]:
        if self._layout.kind == "sequence":
            parts: tuple[Any, ...] = (batch,) if isinstance(batch, torch.Tensor) else tuple(batch)
            if len(parts) < len(self._layout.names):
                return self._narrowed(dict(zip(self._layout.names, parts)), range(1, self.mini_batch + 1))
        if self._layout.kind != "mapping" or not isinstance(batch, Mapping):
            return self._narrowed(self._layout.tensors(batch), range(1, self.mini_batch + 1))
        check_known(batch, self._layout)
        named = dict(zip(self._layout.keys, self._layout.names, strict=True))
        found = {named[key]: tensor for key, tensor in batch.items() if key in named and tensor is not None}
        return self._narrowed(found, range(1, self.mini_batch + 1))

    def _given(self, batch: Batch) -> dict[str, torch.Tensor]:
        own = sum(len(part) for part in self.needed_samples)
        found = self._narrowed(self._layout.tensors(batch), {self.mini_batch, own})
        return {name: kept(tensor) for name, tensor in found.items()}

    def _narrowed(self, tensors: dict[str, torch.Tensor], samples: Collection[int]) -> dict[str, torch.Tensor]:
        """The inputs that the model has, on the processor. Entries that neither module nor loss read are left out."""
        made = {}
        for name, tensor in tensors.items():
            facts = self.facts["inputs"].get(name)
            if facts is None:
                continue
            made[name] = fitted(name, tensor, facts, samples).cpu()  # which waits for the stream that computes it
        return made

    def _is_whole(self, tensors: dict[str, torch.Tensor]) -> bool:
        """Whether a batch has the samples of the whole mini-batch."""
        own = sum(len(part) for part in self.needed_samples)
        if own == self.mini_batch:
            return True
        for name, tensor in tensors.items():
            axis = self.facts["inputs"][name]["axis"]
            if axis >= 0:
                return bool(tensor.shape[axis] != own)
        return True

    def _read_settings(self) -> None:
        """Passes on what has changed in the groups of the user's optimizers."""
        if self._settings is None:
            return
        groups, rate = self._settings.groups(), self._settings.rate()
        if groups != self._groups:
            try:
                self._session.set_groups(groups)
            except _core.Error as failure:
                if "state that parameters need" not in str(failure):
                    raise error(str(failure), place="optimizer") from None
                raise error(f"{failure}, as momentum that was 0 when the trainer was made", place="optimizer",
                            hint="make the optimizer with the settings that it will need") from None
            self._groups = groups
        if rate != self._rate:
            self._session.set_learning_rate(rate)
            self._rate = rate

    def _compare(self, batch: dict[str, torch.Tensor] | None) -> None:
        """Refuses batches that differ between processes, as by data that each shuffles in its own order."""
        self._compared += 1
        assert self._world is not None
        found = self._world.all_given(f"batch/{self._compared}", digest(batch) if batch is not None else None, self._timeout)
        whole = [(rank, each) for rank, each in enumerate(found) if each is not None]
        for rank, each in whole[1:]:
            first, known = whole[0]
            other = sorted(name for name in known if each.get(name) != known[name])
            if other:
                raise error(f"differs between rank {first} and rank {rank}; expected the same mini-batch in all processes",
                            place=f"batch entry {other[0]!r}",
                            hint="rannc.Sampler orders samples equally everywhere; shuffle=True of a DataLoader needs an equal seed")

    _compared = 0
    _more_batches = 0  # mini-batches beyond one for each step
    _has_gradients = False  # accumulated ones, which the next step adds
    _timeout = 300.0

    def _check_surroundings(self) -> None:
        """Warns of what a loop of PyTorch would do and a step does not."""
        written = self._tensors.written() if self._tensors is not None else []
        if written:
            more = f" and {len(written) - 1} more" if written[1:] else ""
            place, tensor = written[0]
            name = place.partition(".")[0]
            of_loss = name in self.bundle.in_loss
            kind = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
            state = f"{name}.state_dict(prefix='{name}.'), strict=False" if of_loss else "net.state_dict()"
            warn(f"{place}{more}: the {kind} of the {'loss' if of_loss else 'module'} was written, which the trainer does not "
                 f"read: trainer.load_state_dict({state}) takes it over")
        changed = self._watched.changed() if self._watched is not None else []
        if changed:
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            warn(f"{changed[0]}{more}: forward or loss reads this, which was changed. Each step has its value of the first call: "
                 "what changes between steps can be an entry of the batch, such as batch_axis={'factor': None} for one without samples")
        if not self._warned_of_autocast and (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
            self._warned_of_autocast = True
            warn("torch.autocast is on, which has no effect on a step: precision='bf16' or 'fp16' of rannc.Trainer trains in "
                 "mixed precision")

    _warned_of_autocast = False
    _watched: Watched | None = None
    _tensors: WatchedTensors | None = None
    _modules: Mapping[str, nn.Module] = {}  # whose parameters the trainer has, by the start of their names

    def _submit(self, given: list[dict[str, torch.Tensor]], run: Callable[[list[Any]], dict[str, Any]]) -> Loss:
        versions = [(name, tensor, tensor._version) for each in given for name, tensor in each.items()
                    if not tensor.is_inference()]
        capsules = [_capsules(each) for each in given]

        def work() -> dict[str, Any]:
            result = _converted(run(capsules))
            for name, tensor, version in versions:
                if tensor._version != version:
                    raise error("was written while the step read it", place=f"batch entry {name!r}",
                                hint="give each step tensors of its own, or read the loss before they are changed")
            if result["beyond_plan"]:
                self._beyond(result["beyond_plan"])
            return result

        self._pending = self._executor.submit(work)
        if self._settings is not None:
            self._settings.mark_stepped()
        poison.add(self._modules.values())
        pending = self._pending
        return Loss(lambda: self._waited(pending))

    _warned_of_sizes = False

    def _beyond(self, text: str) -> None:
        if not self._warned_of_sizes:
            self._warned_of_sizes = True
            warn(f"sizes beyond those of the plan, whose memory and time do not count them: {text}")

    def _waited(self, future: Future[Any]) -> Any:
        """The result of a call in the thread of the steps. Ctrl-C is raised when that has ended, a second one at once."""
        try:
            return future.result()
        except Exception as failure:
            self._raised = failure
            raise
        except KeyboardInterrupt:
            if not future.done():
                try:
                    future.result()
                except KeyboardInterrupt:
                    self._session.abort("interrupted")
                    raise
            raise

    def _run(self, call: Callable[[], Any]) -> Any:
        self._finish()
        return self._waited(self._executor.submit(call))

    def _finish(self) -> None:
        """Waits for the last step, whose error is raised here."""
        if self._session is None:
            raise error("the trainer is closed", hint="make another one; trainer.save() before the end and resume= continue a run")
        if self._process != os.getpid():
            raise error("this process was forked from that of the trainer, whose threads it does not have",
                        hint="call the trainer in the process that made it; workers of a DataLoader only read data")
        pending, self._pending = self._pending, None
        if pending is not None and not (pending.done() and pending.exception() is not None and pending.exception() is self._raised):
            self._waited(pending)

    # --- weights and checkpoints

    def state_dict(self, averaged: bool = False) -> dict[str, torch.Tensor]:
        """Copies of all parameters and buffers, by the names of the module, which has those that no step reads. `averaged`: the
        averages of `ema=`."""
        of_module = self._net.state_dict() if self._net is not None else {}
        state = self._carried(averaged)
        return {**{name: tensor.detach().clone() for name, tensor in of_module.items() if name not in state}, **state}

    def _carried(self, averaged: bool = False) -> dict[str, torch.Tensor]:
        """The part of the state that the program has."""
        self._finish()
        folder = self._temporary()
        if self._world is not None:
            folder = self._world.share(f"state/{self.steps_done}/{next(self._states)}", folder)
        file = os.path.join(folder, "state.safetensors")
        self._run(lambda: self._session.export_weights(os.path.join(folder, "checkpoint"), file, averaged))
        state = self._world.weights(file) if self._world is not None else read_weights(file)
        self._run(lambda: self._session.all_agree(True))
        shutil.rmtree(folder, ignore_errors=True)
        return {**state, **self._counted(state)}

    def _counted(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """PyTorch's counters of batch normalization, which count mini-batches; no step reads them."""
        batches = self.steps_done + self._more_batches
        return {name: torch.tensor(before + self.bundle.counters.get(name, 0) * batches) for name, before in self._tracked.items()
                if name.replace("num_batches_tracked", "running_mean") in state}

    _tracked: dict[str, int] = {}
    _constants: Mapping[str, torch.Tensor] = {}  # integers of buffers
    _states = iter(range(1 << 62))

    def to_module(self, net: nn.Module, averaged: bool = False) -> nn.Module:
        """Copies the trained parameters and buffers into a module of the same class, and returns it. Those of the loss go to
        the modules that it has them from. Parameters that the program did not read keep their values."""
        if not isinstance(net, nn.Module):
            raise error(f"is a {type(net).__name__}; expected a module", place="net")
        with within(unwrapped(net), self.bundle.in_loss):
            copy_to(unwrapped(net), self._carried(averaged))
        if self._tensors is not None:
            self._tensors.renew()
        return net

    def load_state_dict(self, state: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Replaces parameters and buffers by tensors with the names of the module. Optimizer states stay, and so do parameters
        of the loss that are missing, and what no step reads. Integers of buffers are constants of the program: others are an
        error."""
        from .weights import write_weights
        if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
            raise error("is no dictionary of tensors, as net.state_dict() returns", place="state")
        counted: dict[str, int] = {}
        if self._net is not None:
            carried = self._carried()
            known = {**self._net.state_dict(), **self._tracked}
            check_constants(state, {name: tensor for name, tensor in self._constants.items() if name not in carried})
            batches = self.steps_done + self._more_batches
            counted = {name: int(state[name]) - self.bundle.counters.get(name, 0) * batches for name in self._tracked if name in state}
            state = {name: tensor for name, tensor in state.items()
                     if name not in self._tracked and (name in carried or name not in known)}
            if strict:
                state = {**{name: tensor for name, tensor in carried.items() if name.partition(".")[0] in self.bundle.in_loss}, **state}
        file = os.path.join(self._temporary(), "weights.safetensors")
        write_weights(file, state)
        with reworded():
            self._run(lambda: self._session.load_weights(file, not strict))
        self._tracked.update(counted)
        if self._tensors is not None:
            self._tensors.renew()

    def save(self, folder: str | os.PathLike[str], wait: bool = True) -> str:
        """Saves parameters, buffers, optimizer states and settings to `<folder>/checkpoints/step-<n>`, and returns that.
        `Trainer(…, resume=folder)` continues from there under any plan, and so does `rannc-run -o folder --resume`.
        `wait=False` writes the files while the next steps run. Later checkpoints in the folder, as of a run before, are warned of."""
        if folder not in self._folders:
            self._folders.add(folder)
            last = last_checkpoint(folder)
            if last > self.steps_done:
                warn(f"{os.fspath(folder)} has a checkpoint of another run after {last} steps, while this one has done "
                     f"{self.steps_done}: resume= continues from the later one. Save each run to a folder of its own")
        return str(self._run(lambda: self._session.save(os.fspath(folder), "batches of a Python program", wait)))

    _folders: set[str | os.PathLike[str]]  # of this run

    def load(self, folder: str | os.PathLike[str], settings: str = "checkpoint") -> None:
        """Continues from the latest checkpoint of a run. `settings`: whose optimizer, clipping and seed count from now on:
        of the `checkpoint`, or of the `options` of this trainer."""
        if settings not in ("checkpoint", "options"):
            raise error(f"is {settings!r}; expected 'checkpoint' or 'options'", place="settings")
        self._run(lambda: self._session.load(os.fspath(folder), settings == "options"))
        if self._settings is not None:
            self._groups, self._rate = [], math.nan

    def gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of the last step, before clipping, or those accumulated since, of this process's parameters."""
        return {name: dlpack.from_dlpack(capsule) for name, capsule in self._run(lambda: self._session.gradients()).items()}

    @contextlib.contextmanager
    def averages(self) -> Iterator[None]:
        """Within `with trainer.averages():` evaluations use the averages of `ema=`."""
        self._run(lambda: self._session.swap_averages())
        try:
            yield
        finally:
            self._run(lambda: self._session.swap_averages())

    def reschedule(self, *, micro_batches: int | None = None, schedule: str | None = None, recompute: str = "never") -> None:
        """Continues with another number of micro-batches, schedule or recompute of the same cut. Between `accumulate` and `step` it is
        an error, as accumulated gradients would be lost.

        micro_batches, schedule: None: as they are
        recompute: of which micro-batches all stages repeat the forward pass: `never`, `always`, `except-last`
        """
        if recompute not in ("never", "always", "except-last"):
            raise error(f"is {recompute!r}; expected 'never', 'always' or 'except-last'", place="recompute")
        if self._has_gradients:
            raise error("gradients are accumulated, which another schedule does not have",
                        hint="call it after the trainer.step() that adds them")
        number = self.facts["micro_batches"] if micro_batches is None else micro_batches
        self._run(lambda: self._session.reschedule(number, schedule or self.facts["schedule"], recompute != "never",
                                                   recompute == "always"))
        self.facts, self._needed = self._session.facts(), self._session.needed()

    def profile(self) -> Profile:
        """What the last three steps of all processes took, beside the plan."""
        self._finish()
        return Profile(self._run(lambda: self._session.profile(self._losses)))

    # --- the end

    def close(self) -> None:
        """Ends the run and gives the optimizers back. Nothing is saved. Safe to call again. An error of the last step that
        has not been raised yet is raised here."""
        if self._process != os.getpid():
            return
        pending, self._pending = self._pending, None
        failure = pending.exception() if pending is not None else None
        self._closers.close()
        if failure is not None and failure is not self._raised:
            raise failure

    _session: Any = None
    _raised: BaseException | None = None  # the last error of a step that the user has seen

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.suppress(*[Exception] if kind is not None else []):
            self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def __reduce__(self) -> Any:
        raise error("a trainer cannot be copied or pickled", hint="trainer.state_dict() returns copies of its parameters, and "
                    "trainer.save() writes all of its state")

    def __repr__(self) -> str:
        facts = self.facts
        return (f"<rannc.Trainer: {facts['stages']} stages on {facts['devices']} devices, {facts['micro_batches']} "
                f"micro-batches of a mini-batch of {facts['mini_batch']}, {facts['schedule']}>")


#: First steps whose batches are compared between processes.
_COMPARED_STEPS = 2


def _begin(threads: int, worker: list[int]) -> None:
    """Prepares the thread of the steps, which holds no trainer."""
    torch.set_num_threads(threads)
    worker.append(threading.get_ident())


def _capsules(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {name: tensor.__dlpack__() for name, tensor in tensors.items()}


def _converted(result: dict[str, Any]) -> dict[str, Any]:
    for kind in ("outputs", "metrics"):
        result[kind] = {name: dlpack.from_dlpack(capsule) for name, capsule in result[kind].items()}
    return result
