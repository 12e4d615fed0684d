"""Two processes, 3 optimizer steps: how often does the learning rate scheduler step?"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from traps import Cell

TITLE = "Scheduler on two processes"
MEASURES = "scheduler steps for 3 optimizer steps, 2 processes"
RIGHT = "3"
RANKS = 2


def _setup() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any], Any]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(12, 2)), 2)
    return model, optimizer, loader, torch.optim.lr_scheduler.StepLR(optimizer, 100)


def _cell(scheduler: Any, note: str = "") -> Cell:
    return Cell(str(scheduler.last_epoch), scheduler.last_epoch == 3, note)


def naive() -> Cell:
    torch.distributed.init_process_group("gloo")
    model, optimizer, loader, scheduler = _setup()
    wrapped = nn.parallel.DistributedDataParallel(model)
    loader = DataLoader(loader.dataset, 2, sampler=DistributedSampler(loader.dataset))  # type: ignore[arg-type]
    for (x,) in loader:
        wrapped(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    # Or the model is the last to hold the group: it waits for gloo's thread with the interpreter's lock in its hand,
    # and the thread may be waiting for that lock (PyTorch 2.13; one run in 20 hangs for good).
    del wrapped
    torch.distributed.destroy_process_group()
    return _cell(scheduler)


def _accelerate(note: str = "", **options: Any) -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, **options)
    model, optimizer, loader, scheduler = accelerator.prepare(*_setup())
    for (x,) in loader:
        accelerator.backward(model(x).mean())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.end_training()
    return _cell(scheduler.scheduler, note)


def accelerate() -> Cell:
    return _accelerate()


def accelerate_best() -> Cell:
    return _accelerate("`step_scheduler_with_optimizer=False`", step_scheduler_with_optimizer=False)


def fabric() -> Cell:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    model, optimizer, loader, scheduler = _setup()
    model, optimizer = fabric.setup(model, optimizer)
    for (x,) in fabric.setup_dataloaders(loader):
        fabric.backward(model(x).mean())
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return _cell(scheduler)


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", quiet=True)
    model, _, loader, scheduler = loop.prepare(*_setup())
    for (x,) in loader:
        with loop.step():
            loop.backward(model(x).mean())
    return _cell(scheduler)


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": fabric,
    "loop": loop,
}
