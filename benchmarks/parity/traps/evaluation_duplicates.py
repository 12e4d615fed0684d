"""Evaluation of 9 samples on two processes: samplers repeat some so that all batches are alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from traps import USERS, Cell

TITLE = "Evaluation on two processes"
MEASURES = "samples counted of 9, 2 processes, batches of 3"
RIGHT = "9"
RANKS = 2


def _loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(9.0)), 3)


def _cell(count: Any, note: str = "") -> Cell:
    return Cell(str(int(count)), int(count) == 9, note)


def naive() -> Cell:
    torch.distributed.init_process_group("gloo")
    dataset = _loader().dataset
    count = torch.zeros(())
    for (x,) in DataLoader(dataset, 3, sampler=DistributedSampler(dataset, shuffle=False)):  # type: ignore[arg-type]
        count += len(x)
    torch.distributed.all_reduce(count)
    torch.distributed.destroy_process_group()
    return _cell(count)


def accelerate() -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    count = sum(len(accelerator.gather(x)) for (x,) in accelerator.prepare(_loader()))
    accelerator.end_training()
    return _cell(count, "with `gather`")


def accelerate_best() -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    count = sum(len(accelerator.gather_for_metrics(x)) for (x,) in accelerator.prepare(_loader()))
    accelerator.end_training()
    return _cell(count, "with `gather_for_metrics`")


def fabric() -> Cell:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    count = sum(fabric.all_gather(x).numel() for (x,) in fabric.setup_dataloaders(_loader()))
    return _cell(count)


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", quiet=True)
    loop.prepare(nn.Linear(1, 1))
    loader, count = loop.prepare(_loader()), 0
    with loop.evaluation():
        for (x,) in loader:
            count += len(x)
    return _cell(loop.ranks.sum(count, loop.device))


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": fabric,
    "fabric_best": Cell(USERS, None, "`use_distributed_sampler=False` and a sampler of one's own"),
    "loop": loop,
}
