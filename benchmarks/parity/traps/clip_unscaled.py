"""float16: gradients carry the loss scale of 65,536 until they are unscaled. Clipped before that, nothing is left."""

from __future__ import annotations

import math

import torch
from torch import nn

from traps import Cell

TITLE = "Clipping before unscaling"
MEASURES = "size of the update at rate 0.3, gradients clipped to norm 1, in float16"
RIGHT = "0.3"
RANKS = 1


def _setup() -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(64, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=0.3)


X = torch.full((2, 64), 0.25)  # a gradient of norm 2, whose scaled entries still fit into float16


def _cell(weight: torch.Tensor) -> Cell:
    size = weight.detach().norm().item()
    return Cell(f"{size:.1g}", math.isclose(size, 0.3, rel_tol=1e-3))


def naive() -> Cell:
    model, optimizer = _setup()
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(X).float().mean()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return _cell(model.weight)


def fabric() -> Cell:
    """`Fabric(precision="16-mixed")` turns to bfloat16 on a CPU; its plugin, given as such, does not."""
    from lightning.fabric import Fabric
    from lightning.fabric.plugins import MixedPrecision

    fabric = Fabric(accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", device="cpu"))
    model, optimizer = fabric.setup(*_setup())
    fabric.backward(model(X).mean())
    fabric.clip_gradients(model, optimizer, max_norm=1.0)
    optimizer.step()
    return _cell(model.weight)


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", precision="fp16", clip_norm=1.0, quiet=True)
    model, _ = loop.prepare(*_setup())
    with loop.step():
        loop.backward(model(X).float().mean())
    return _cell(model.weight)


COLUMNS = {
    "naive": naive,
    "accelerate": Cell("not measured", None, "refuses float16 on a CPU; its `clip_grad_norm_` unscales first"),
    "fabric": fabric,
    "loop": loop,
}
