"""5 batches, windows of 4: the last window holds one batch. Divided by 4 it counts for a quarter."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from traps import USERS, Cell

TITLE = "Short last window"
MEASURES = "gradient of a last window of 1 batch (windows of 4), as a share of the right one"
RIGHT = "1"
RANKS = 1
ACCUMULATE = 4


def _setup() -> tuple[nn.Linear, torch.optim.Optimizer, DataLoader[Any]]:
    """The loss is the weight itself, so a window's gradient is 1 and a step of rate 1 shows it."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=1.0), DataLoader(TensorDataset(torch.ones(5, 1)))


def _cell(before: float, after: float, note: str = "") -> Cell:
    return Cell(f"{before - after:g}", math.isclose(before - after, 1), note)


def naive() -> Cell:
    model, optimizer, loader = _setup()
    before = 0.0
    for i, (x,) in enumerate(loader):
        (model(x).mean() / ACCUMULATE).backward()
        if (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader):
            before = model.weight.item()
            optimizer.step()
            optimizer.zero_grad()
    return _cell(before, model.weight.item())


def accelerate() -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    model, optimizer, loader = accelerator.prepare(*_setup())
    before = 0.0
    for (x,) in loader:
        before = model.weight.item()
        with accelerator.accumulate(model):
            accelerator.backward(model(x).mean())
            optimizer.step()
            optimizer.zero_grad()
    return _cell(before, model.weight.item())


def accelerate_best() -> Cell:
    """The guide on samples of variable size: fetch a window's batches, count them, weigh each loss by hand."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    model, optimizer, loader = accelerator.prepare(*_setup())
    before, iterator, left = 0.0, iter(loader), len(loader)
    while left:
        batches = [next(iterator) for _ in range(min(left, ACCUMULATE))]
        left -= len(batches)
        count = accelerator.gather(torch.tensor(sum(len(x) for (x,) in batches))).sum().item()
        for i, (x,) in enumerate(batches):
            alone = i + 1 == len(batches) or accelerator.num_processes == 1
            with nullcontext() if alone else accelerator.no_sync(model):
                loss = model(x).sum() * ACCUMULATE * accelerator.num_processes / count
                accelerator.backward(loss)
        before = model.weight.item()
        optimizer.step()
        optimizer.zero_grad()
    return _cell(before, model.weight.item(), "windows fetched, counted and weighed by hand")


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", accumulate=ACCUMULATE, quiet=True)
    model, _, loader = loop.prepare(*_setup())
    before = 0.0
    for (x,) in loader:
        before = model.weight.item()
        with loop.step():
            loop.backward(model(x).mean())
    return _cell(before, model.weight.item())


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": Cell(USERS, None, "has no accumulation of its own"),
    "loop": loop,
}
