"""One autocast around the whole training: it keeps its low-precision copies of the weights, and steps do not show."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from traps import Cell

TITLE = "One autocast around everything"
MEASURES = "different losses in 6 steps on one batch, in bfloat16"
RIGHT = "6"
RANKS = 1
STEPS = 6


def _setup() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(32, 8), 3 * torch.randn(32, 1)


def _cell(losses: list[float]) -> Cell:
    count = len(set(losses))
    return Cell(str(count), count == STEPS)


def naive() -> Cell:
    (model, optimizer), (x, y), losses = _setup(), _batch(), []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(STEPS):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return _cell(losses)


def accelerate() -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    model, optimizer = accelerator.prepare(*_setup())
    (x, y), losses = _batch(), []
    for _ in range(STEPS):
        loss = F.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return _cell(losses)


def fabric() -> Cell:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    model, optimizer = fabric.setup(*_setup())
    (x, y), losses = _batch(), []
    for _ in range(STEPS):
        loss = F.mse_loss(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return _cell(losses)


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", precision="bf16", quiet=True)
    model, _ = loop.prepare(*_setup())
    (x, y), losses = _batch(), []
    for _ in range(STEPS):
        with loop.step():
            losses.append(loop.backward(F.mse_loss(model(x), y)).item())
    return _cell(losses)


COLUMNS = {"naive": naive, "accelerate": accelerate, "fabric": fabric, "loop": loop}
