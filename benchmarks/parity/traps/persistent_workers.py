"""To keep workers alive between epochs, `persistent_workers=True` gives up the order of the samples.

It forgets a random draw between epochs, so that from the second epoch on the shuffle is another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from traps import Cell

TITLE = "Workers kept between epochs"
MEASURES = "epochs of 4 whose order is that of workers started anew, while the same workers live on"
RIGHT = "4"
RANKS = 1
EPOCHS = 4


class Samples(Dataset[tuple[int, int]]):
    """Twelve samples: their number, and the process that fetched them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, os.getpid()


class Run(NamedTuple):
    """The samples and the workers, epoch by epoch."""

    orders: list[list[int]]
    workers: list[set[int]]


def _run(persistent: bool, prepare: Callable[[DataLoader[Any]], Any]) -> Run:
    torch.manual_seed(0)
    loader = DataLoader(Samples(), 3, shuffle=True, num_workers=1, persistent_workers=persistent)
    prepared, run = prepare(loader), Run([], [])
    for _ in range(EPOCHS):
        batches = list(prepared)
        run.orders.append([int(i) for indices, _ in batches for i in indices])
        run.workers.append({int(pid) for _, pids in batches for pid in pids})
    return run


def _cell(prepare: Callable[[DataLoader[Any]], Any], note: str = "", *, persistent: bool = True) -> Cell:
    usual = _run(False, prepare if persistent else _as_it_is)
    kept = _run(persistent, prepare)
    same = sum(a == b for a, b in zip(usual.orders, kept.orders))
    alive = all(workers == kept.workers[0] for workers in kept.workers)
    return Cell(str(same if alive else 0), alive and same == EPOCHS, note)


def _as_it_is(loader: DataLoader[Any]) -> DataLoader[Any]:
    return loader


def naive() -> Cell:
    return _cell(_as_it_is)


def accelerate() -> Cell:
    from accelerate import Accelerator

    return _cell(Accelerator(cpu=True).prepare)


def accelerate_best() -> Cell:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    config = DataLoaderConfiguration(use_seedable_sampler=True)
    return _cell(Accelerator(cpu=True, dataloader_config=config).prepare, "`use_seedable_sampler=True`")


def fabric() -> Cell:
    from lightning.fabric import Fabric

    return _cell(Fabric(accelerator="cpu", devices=1).setup_dataloaders)


def loop() -> Cell:
    """Loop keeps workers alive without being asked; the order is compared with the bare DataLoader's."""
    import flatout

    return _cell(flatout.Loop(device="cpu", quiet=True).prepare, "without `persistent_workers`", persistent=False)


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": fabric,
    "loop": loop,
}
