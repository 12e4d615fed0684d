"""Mixed precision wraps `forward`. A model that is called by another name runs there in float32, and says nothing."""

from __future__ import annotations

import torch
from torch import nn

from traps import Cell

TITLE = "Methods other than forward"
MEASURES = "number format in which `model.encode(x)` runs when bfloat16 was asked for"
RIGHT = "bfloat16"
RANKS = 1


class Model(nn.Module):
    """An autoencoder that is used by halves. x: (B, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 2)
        self.decoder = nn.Linear(2, 4)
        self.ran_in = torch.float64

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        code = self.encoder(x)
        self.ran_in = code.dtype
        return code

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encode(x))


class Decorated(Model):
    """As PyTorch's pages on autocast show it: the decorator on `forward`."""

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


X = torch.ones(3, 4)


def _cell(model: Model, note: str = "") -> Cell:
    name = str(model.ran_in).removeprefix("torch.")
    return Cell(name, name == RIGHT, note)


def naive() -> Cell:
    model = Decorated()
    model.encode(X)
    return _cell(model)


def accelerate() -> Cell:
    from accelerate import Accelerator

    model = Model()
    Accelerator(cpu=True, mixed_precision="bf16").prepare(model).encode(X)
    return _cell(model)


def accelerate_best() -> Cell:
    from accelerate import Accelerator

    accelerator, model = Accelerator(cpu=True, mixed_precision="bf16"), Model()
    prepared = accelerator.prepare(model)
    with accelerator.autocast():
        prepared.encode(X)
    return _cell(model, "inside `accelerator.autocast()`")


def fabric() -> Cell:
    from lightning.fabric import Fabric

    model = Model()
    Fabric(accelerator="cpu", devices=1, precision="bf16-mixed").setup(model).encode(X)
    return _cell(model)


def fabric_best() -> Cell:
    """Not `mark_forward_method`: on one device it leaves the call as it is."""
    from lightning.fabric import Fabric

    model = Model()
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    prepared = fabric.setup(model)
    with fabric.autocast():
        prepared.encode(X)
    return _cell(model, "inside `fabric.autocast()`")


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", precision="bf16", quiet=True)
    model = Model()
    prepared, _ = loop.prepare(model, torch.optim.SGD(model.parameters()))
    with loop.step():
        loop.backward(prepared.encode(X).float().mean())
    return _cell(model)


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": fabric,
    "fabric_best": fabric_best,
    "loop": loop,
}
