"""A window of two texts, 3 and 40 tokens long: the mean of their means is not the mean over 43 tokens."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from traps import USERS, Cell

TITLE = "Mean of means"
MEASURES = "error of the gradient of a window of two texts (3 and 40 tokens), as a share of the right one"
RIGHT = "0 %"
RANKS = 1
LENGTHS = (3, 40)
IGNORED = -100
VOCABULARY = 10


class Model(nn.Module):
    """Token numbers of shape (B, T) to logits of shape (B, VOCABULARY, T)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).transpose(1, 2)


def _setup() -> tuple[Model, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model = Model()
    ids = torch.randint(VOCABULARY, (2, max(LENGTHS)))
    present = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    labels = ids.roll(-1, 1).masked_fill(~present, IGNORED)
    return model, torch.optim.SGD(model.parameters(), lr=1.0), DataLoader(TensorDataset(ids, labels))


def _loss(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return F.cross_entropy(model(ids), labels, ignore_index=IGNORED, reduction=reduction)


def _cell(weight: torch.Tensor, note: str = "") -> Cell:
    """From the weight after a step of rate 1."""
    model, _, loader = _setup()
    start = model.table.weight.detach().clone()
    ids, labels = loader.dataset.tensors  # type: ignore[attr-defined]
    _loss(model, ids, labels).backward()
    right = model.table.weight.grad
    assert right is not None
    error = ((start - weight.detach() - right).norm() / right.norm()).item()
    return Cell(f"{error:.0%}".replace("%", " %"), error < 1e-5, note)


def naive() -> Cell:
    model, optimizer, loader = _setup()
    for ids, labels in loader:
        (_loss(model, ids, labels) / 2).backward()
    optimizer.step()
    return _cell(model.table.weight)


def accelerate() -> Cell:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(*_setup())
    for ids, labels in loader:
        with accelerator.accumulate(model):
            accelerator.backward(_loss(model, ids, labels))
            optimizer.step()
            optimizer.zero_grad()
    return _cell(model.table.weight)


def accelerate_best() -> Cell:
    """The guide on samples of variable size: fetch a window's batches, count their tokens, weigh each loss by hand."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(*_setup())
    batches = list(loader)
    count = accelerator.gather(sum((labels != IGNORED).sum() for _, labels in batches)).sum().item()
    for i, (ids, labels) in enumerate(batches):
        alone = i + 1 == len(batches) or accelerator.num_processes == 1
        with nullcontext() if alone else accelerator.no_sync(model):
            loss = _loss(model, ids, labels, "sum") * 2 * accelerator.num_processes / count
            accelerator.backward(loss)
    optimizer.step()
    return _cell(model.table.weight, "windows fetched, counted and weighed by hand")


def loop() -> Cell:
    import flatout

    loop = flatout.Loop(device="cpu", accumulate=2, quiet=True)
    model, _, loader = loop.prepare(*_setup())
    for ids, labels in loader:
        with loop.step():
            loop.backward(_loss(model, ids, labels), weight=(labels != IGNORED).sum())
    return _cell(model.table.weight)


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": Cell(USERS, None, "has no accumulation of its own"),
    "loop": loop,
}
