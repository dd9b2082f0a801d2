"""Trains a PyTorch module on several devices, from the user's own script.

    trainer = rannc.Trainer(net, example, loss=loss, optimizer=optimizer, cluster="local:2")
    for batch in loader:
        loss = trainer.step(batch)
    trainer.to_module(net)

`plan` answers how a module would be divided, without weights and devices. `compile` writes a bundle, which
`Trainer`, `rannc-run` and programs in C++ open. Errors are `rannc.Error`; probable mistakes are `rannc.Warning`.
"""
import torch  # LibTorch is that of this process: it has to be there before the extension

try:
    from ._core import Error
except ImportError as failure:
    raise ImportError(f"rannc cannot be loaded beside PyTorch {torch.__version__}: it requires the version that it was built "
                      f"with (`pip show rannc`): {failure}") from failure

from .compiler import Bundle, Plan, Stage, compile, plan, read
from .launch import launch
from .options import Warning
from .results import Evaluation, Loss, Profile
from .sampler import Sampler
from .trainer import Trainer

__all__ = ["Bundle", "Error", "Evaluation", "Loss", "Plan", "Profile", "Sampler", "Stage", "Trainer", "Warning", "compile",
           "launch", "plan", "read"]
