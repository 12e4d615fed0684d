"""The Loop arm of the parity tests, and what it means to be equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import parity_plain as plain
import torch
from parity_plain import Recipe, Result
from parity_tasks import IGNORED, Task

import flatout


def make(task: Callable[..., Task], **options: Any) -> Task:
    torch.manual_seed(0)
    return task(**options)


def train(task: Task, recipe: Recipe, *, tokens: bool = False, reduction: str = "mean") -> Result:
    """The same training with Loop."""
    loop = flatout.Loop(
        device="cpu", precision=recipe.precision, accumulate=recipe.accumulate, clip_norm=recipe.clip, quiet=True
    )
    optimizer = plain.make_optimizer(task, recipe)
    scheduler = plain.make_scheduler(optimizer, recipe)
    model, optimizer, loader, held_out = loop.prepare(task.model, optimizer, task.train, task.held_out)
    if scheduler:
        loop.prepare(scheduler)
    loss_of = partial(torch.nn.functional.cross_entropy, reduction=reduction)
    losses, evaluations, rates = [], [], []
    torch.manual_seed(1)
    for _ in loop.epochs(recipe.epochs):
        for x, y in loader:
            with loop.step():
                weight = (y != IGNORED).sum() if tokens else None
                loss = loop.backward(loss_of(model(x), y), weight=weight, reduction=reduction)
            losses.append(loss.item())
        if recipe.evaluate:
            with loop.evaluation():
                batches = [loss_of(model(x), y).item() for x, y in held_out]
            evaluations.append(sum(batches) / len(batches))
        rates.append(optimizer.param_groups[0]["lr"])
    return plain.result(task, optimizer, losses, evaluations, rates, loop.precision.scaler)


def assert_equal(ours: Result, theirs: Result) -> None:
    """Bit for bit."""
    for name in theirs.weights:
        assert torch.equal(ours.weights[name], theirs.weights[name]), name
    assert ours.optimizer.keys() == theirs.optimizer.keys()
    for index, state in theirs.optimizer.items():
        for name, value in state.items():
            mine = ours.optimizer[index][name]
            assert torch.equal(mine, value) if isinstance(value, torch.Tensor) else mine == value, (index, name)
    assert ours[2:6] == theirs[2:6]
    assert torch.equal(ours.random, theirs.random)
