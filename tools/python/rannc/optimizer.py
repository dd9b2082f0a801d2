"""Objects of `torch.optim` as settings of the runtime."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from .options import error

#: Smallest rate that a group may have. A step of it changes no bit of a parameter, like that of rate 0.
_LEAST_RATE = 1e-300
_AGAIN = "trainer.to_module(net) and trainer.close(), then make another trainer with a new optimizer"


@dataclasses.dataclass(frozen=True)
class _Kind:
    name: str
    settings: dict[str, str]  #: names of the runtime by those of torch
    fixed: dict[str, Any]  #: the only values that the runtime has


_SAME = {"maximize": False, "differentiable": False}
_KINDS: dict[type, _Kind] = {
    torch.optim.SGD: _Kind("sgd", {"momentum": "momentum", "nesterov": "nesterov"}, {"dampening": 0, **_SAME}),
    torch.optim.Adam: _Kind("adam", {"eps": "epsilon", "amsgrad": "amsgrad"}, _SAME),
    torch.optim.AdamW: _Kind("adamw", {"eps": "epsilon", "amsgrad": "amsgrad"}, _SAME),
    torch.optim.Adafactor: _Kind("adafactor", {}, {"beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0, "maximize": False}),
}
if hasattr(torch.optim, "Muon"):
    _KINDS[torch.optim.Muon] = _Kind("muon", {"momentum": "momentum", "nesterov": "nesterov"},
                                     {"ns_coefficients": (3.4445, -4.775, 2.0315), "eps": 1e-7, "ns_steps": 5})


def _name(optimizer: Optimizer) -> str:
    return f"torch.optim.{type(optimizer).__name__}"


def _kind_of(optimizer: Optimizer, group: dict[str, Any]) -> _Kind:
    kind = _KINDS.get(type(optimizer))
    if kind is None:
        names = ", ".join(sorted(each.__name__ for each in _KINDS))
        raise error(f"{_name(optimizer)} is not supported; expected one of torch.optim: {names}", place="optimizer",
                    hint="optimizer='lion' and others without a class in torch.optim are named by text")
    if kind.name == "adam" and group.get("decoupled_weight_decay"):
        return _KINDS[torch.optim.AdamW]
    return kind


def _check_fixed(optimizer: Optimizer, group: dict[str, Any], kind: _Kind) -> None:
    for setting, value in kind.fixed.items():
        if group.get(setting, value) != value:
            raise error(f"{_name(optimizer)} has {setting}={group[setting]}; rannc has {setting}={value} only",
                        place="optimizer")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(float(value))


class Settings:
    """What optimizers of the user specify for the parameters of a module, and what has changed since."""

    def __init__(self, optimizers: Optimizer | Sequence[Optimizer], names: dict[int, list[str]]):
        is_list = isinstance(optimizers, Sequence) and not isinstance(optimizers, str) and len(optimizers) > 0
        self.optimizers: list[Optimizer] = list(optimizers) if is_list else [optimizers]  # type: ignore[list-item, arg-type]
        self._names = names
        for optimizer in self.optimizers:
            self._check(optimizer)
        self._groups = [(optimizer, index) for optimizer in self.optimizers
                        for index in range(len(optimizer.param_groups))]
        self._trained: frozenset[str] | None = None
        self._required: dict[int, str] | None = None
        first, index = self._groups[0]
        self.kind = _kind_of(first, first.param_groups[index])
        self._hooks = [optimizer.register_step_pre_hook(_refuse_step) for optimizer in self.optimizers]

    def _check(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            found = f"the class {optimizer.__name__}" if isinstance(optimizer, type) else f"a {type(optimizer).__name__}"
            raise error(f"is {found}; expected an object of torch.optim, a list of such, or a name such as 'adamw'",
                        place="optimizer")
        if _refuse_step in optimizer._optimizer_step_pre_hooks.values():
            raise error(f"{_name(optimizer)} is in another trainer, which is open", place="optimizer",
                        hint="call close() of that trainer first")
        for group in optimizer.param_groups:
            _check_fixed(optimizer, group, _kind_of(optimizer, group))  # first: Adagrad has a state before its steps
        if optimizer.state:
            raise error(f"{_name(optimizer)} has made steps already, whose state rannc does not take over",
                        place="optimizer", hint="make a new object; a run of rannc is continued with resume=")
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            raise error(f"{_name(optimizer)} has hooks of its steps, which rannc would not call", place="optimizer")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self._names:
                    raise error(f"{_name(optimizer)} has a parameter of shape {tuple(parameter.shape)} that the module "
                                "does not have", place="optimizer", hint="make it from the parameters of the module that "
                                "is trained, after the last .to(), half() or similar; those of a loss are found if loss= is a "
                                "module, or a function that reads a module by the name of a variable")

    def use_trained(self, trained: Iterable[str]) -> None:
        """Sets the parameters that are trained, by name. One that no group has is an error."""
        self._trained = frozenset(trained)
        held = {name for optimizer, index in self._groups for name in self._of(optimizer, index)}
        lacking = sorted(self._trained - held)
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise error(f"no group has the parameter {lacking[0]!r}{more}, which would be trained", place="optimizer",
                        hint="add it, or switch its gradient off: parameter.requires_grad_(False)")
        self._required = self._requiring()

    def _requiring(self) -> dict[int, str]:
        """Names of the parameters in groups that require a gradient, by `id`."""
        return {id(parameter): self._names.get(id(parameter), ["of another module"])[0] for optimizer in self.optimizers
                for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad}

    def _check_unchanged(self) -> None:
        """What a trainer cannot follow is an error: other parameters, and settings that it does not have."""
        for optimizer in self.optimizers:
            known = sum(1 for each, _ in self._groups if each is optimizer)
            if len(optimizer.param_groups) != known:
                raise error(f"{_name(optimizer)} has {len(optimizer.param_groups)} groups; it had {known} when the trainer was "
                            "made", place="optimizer", hint=_AGAIN)
            for group in optimizer.param_groups:
                _check_fixed(optimizer, group, _kind_of(optimizer, group))
                rate = float(group["lr"])
                if not 0 <= rate < math.inf:
                    raise error(f"{_name(optimizer)} has the learning rate {rate}; expected 0 or a positive number",
                                place="optimizer")
        required = self._requiring()
        if self._required is not None and required != self._required:
            changed = {**required, **self._required}
            identity = min(set(required) ^ set(self._required), key=lambda each: changed[each])
            now = "requires a gradient now; it did not" if identity in required else "requires no gradient now; it did"
            raise error(f"the parameter {now} when the trainer was made", place=changed[identity], hint=_AGAIN)

    def _of(self, optimizer: Optimizer, index: int) -> list[str]:
        """Trained parameters of a group; of the names of a tied one, that of the model."""
        found = []
        for parameter in optimizer.param_groups[index]["params"]:
            names = self._names[id(parameter)]
            trained = names if self._trained is None else [name for name in names if name in self._trained]
            if parameter.requires_grad and trained:
                found.append(trained[0])
        return found

    def flags(self) -> dict[str, Any]:
        """The rule of the first group, as options."""
        optimizer, index = self._groups[0]
        group = optimizer.param_groups[index]
        made: dict[str, Any] = {"optimizer": self.kind.name}
        if "momentum" in self.kind.settings and group["momentum"]:
            made["momentum"] = repr(float(group["momentum"]))
        if "amsgrad" in self.kind.settings and group["amsgrad"]:
            made["amsgrad"] = True
        return made

    def groups(self) -> list[str]:
        """The settings of every parameter but the rates' common factor, as texts of `--group`."""
        self._check_unchanged()
        texts = []
        first, scales = self._reference(0), self._scale() is not None
        for number, (optimizer, index) in enumerate(self._groups):
            rate = f"{self._reference(number) / first!r}x" if scales else \
                repr(max(float(optimizer.param_groups[index]["lr"]), _LEAST_RATE))
            settings = ", ".join(f"{name}={value}" for name, value in
                                 {**self._settings(optimizer, index), "rate": rate}.items())
            texts += [f"{name}: {settings}" for name in self._of(optimizer, index)]
        return texts

    def _settings(self, optimizer: Optimizer, index: int) -> dict[str, str]:
        group = optimizer.param_groups[index]
        kind = _kind_of(optimizer, group)
        made = {"optimizer": kind.name} if kind.name != self.kind.name else {}
        for of_torch, name in kind.settings.items():
            if name == "nesterov" and not group.get("momentum"):
                continue
            made[name] = _text(group[of_torch])
        if "betas" in group:
            made["beta1"], made["beta2"] = (_text(float(beta)) for beta in group["betas"])
        if kind.name == "muon":
            made["match_rms_adamw"] = _text(group.get("adjust_lr_fn") == "match_rms_adamw")
        made["weight_decay"] = _text(float(group["weight_decay"]))
        return made

    def _reference(self, number: int) -> float:
        """The rate of a group that its scheduler scales."""
        optimizer, index = self._groups[number]
        group = optimizer.param_groups[index]
        return max(float(group.get("initial_lr", group["lr"])), _LEAST_RATE)

    def _scale(self) -> float | None:
        """The factor that all rates have in common; nothing if they have none."""
        scales = [float(optimizer.param_groups[index]["lr"]) / self._reference(number)
                  for number, (optimizer, index) in enumerate(self._groups)]
        same = max(scales) - min(scales) <= 1e-13 * max(scales)
        return scales[0] if same else None

    def rate(self) -> float:
        """The learning rate of the first group, with which the others are scaled."""
        scale = self._scale()
        return max(self._reference(0) * (1.0 if scale is None else scale), _LEAST_RATE)

    def mark_stepped(self) -> None:
        """Lets schedulers know that there was a step."""
        for optimizer in self.optimizers:
            setattr(optimizer, "_opt_called", True)

    def release(self) -> None:
        """Gives the optimizers back to the user."""
        for hook in self._hooks:
            hook.remove()


def _refuse_step(optimizer: Optimizer, *_: Any) -> None:
    raise error(f"{_name(optimizer)}.step() would do nothing: trainer.step(batch) has updated the parameters, which are "
                "in the trainer", place="optimizer", hint="leave the call out; trainer.close() gives the optimizer back")


def refuse_settings(options: Mapping[str, Any]) -> None:
    """Refuses arguments that an object of `torch.optim` specifies itself."""
    for name in ("learning_rate", "weight_decay", "betas", "epsilon", "momentum", "nesterov", "amsgrad", "group",
                 "warmup_steps", "decay", "no_decay", "no_decay_embeddings", "muon_rate"):
        if name in options:
            raise error(f"{name}= beside an object of torch.optim, which specifies this itself",
                        hint="set it in the optimizer or its groups, or use a scheduler of torch.optim.lr_scheduler")
