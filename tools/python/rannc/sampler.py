"""Indices of the samples that a process reads."""
from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING

import torch
from torch.utils.data import Sampler as TorchSampler

from .options import error

if TYPE_CHECKING:
    from .trainer import Trainer


class Sampler(TorchSampler[list[int]]):
    """A `batch_sampler` of `torch.utils.data.DataLoader`: yields, per mini-batch, the samples that this process computes.

    trainer: whose mini-batch and `needed_samples` count
    data: a data set with a length
    shuffle: a new order in each epoch, which depends on `seed` and the epoch alone, in every process
    seed: equal in all processes

    A trailing partial mini-batch is left out. `set_epoch` begins another epoch than the next one.
    """

    def __init__(self, trainer: Trainer, data: Sized, *, shuffle: bool = False, seed: int = 0):
        self._trainer, self._count = trainer, len(data)
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0
        if len(self) == 0:
            raise error(f"has {self._count} samples, less than a mini-batch of {trainer.mini_batch}", place="data")

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count // self._trainer.mini_batch

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self._count))
        if self._shuffle:
            generator = torch.Generator().manual_seed(self._seed + self._epoch)
            order = torch.randperm(self._count, generator=generator).tolist()
        self._epoch += 1
        size = self._trainer.mini_batch
        for first in range(0, len(self) * size, size):
            yield [order[first + number] for part in self._trainer.needed_samples for number in part]
