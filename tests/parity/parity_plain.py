"""The plain PyTorch loops that Loop is held against: written by hand with care, and nothing shared with Loop."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from parity_tasks import IGNORED, Task

LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Recipe(NamedTuple):
    """How a task is trained. `seed` is set before the first epoch."""

    precision: str = "fp32"
    accumulate: int = 1
    clip: float | None = None
    scheduler: bool = False
    epochs: int = 3
    optimizer: str = "adamw"
    evaluate: bool = False


class Result(NamedTuple):
    """What a run left behind: all of it has to be equal, bit for bit."""

    weights: dict[str, torch.Tensor]
    optimizer: dict[str, Any]
    losses: list[float]
    evaluations: list[float]
    rates: list[float]  # the learning rate after each epoch
    scale: float  # of fp16's losses; 1.0 else
    random: torch.Tensor  # the state of the global generator


def make_optimizer(task: Task, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer for the task's model. AdamW's has groups: biases do not decay."""
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(task.model.parameters(), lr=0.1, momentum=0.9)
    weights = [p for p in task.model.parameters() if p.dim() > 1]
    others = [p for p in task.model.parameters() if p.dim() <= 1]
    return torch.optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others}], lr=1e-2)


def make_scheduler(optimizer: torch.optim.Optimizer, recipe: Recipe) -> Any:
    """One that steps with the optimizer, so that a step too many or too few shows."""
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95) if recipe.scheduler else None


def autocast(precision: str) -> Any:
    """The forward pass in this precision, on a CPU."""
    return torch.autocast("cpu", dtype=LOW[precision]) if precision in LOW else nullcontext()


def evaluate(task: Task, precision: str) -> float:
    """The mean loss over the held-out samples, by batches."""
    task.model.eval()
    with torch.inference_mode(), autocast(precision):
        losses = [float(task.loss(task.model(x), y)) for x, y in task.held_out]
    task.model.train()
    return sum(losses) / len(losses)


def train(task: Task, recipe: Recipe) -> Result:
    """The mean over a window's samples: each batch weighs what it holds of the window."""
    optimizer = make_optimizer(task, recipe)
    scheduler = make_scheduler(optimizer, recipe)
    scaler = torch.amp.GradScaler("cpu", enabled=recipe.precision == "fp16")
    samples, batches, size = len(task.train.dataset), len(task.train), task.train.batch_size  # type: ignore[arg-type]
    losses, evaluations, rates = [], [], []
    torch.manual_seed(1)
    for _ in range(recipe.epochs):
        for i, (x, y) in enumerate(task.train):
            start = i - i % recipe.accumulate  # this window's first batch
            in_window = min((start + recipe.accumulate) * size, samples) - start * size
            with autocast(recipe.precision):
                loss = task.loss(task.model(x), y)
            scaler.scale(loss * (len(x) / in_window)).backward()
            losses.append(loss.item())
            if (i + 1) % recipe.accumulate == 0 or i + 1 == batches:
                if recipe.clip is not None:
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(task.model.parameters(), recipe.clip)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if scheduler and scaler.get_scale() >= before:  # a skipped step lowers the scale
                    scheduler.step()
        if recipe.evaluate:
            evaluations.append(evaluate(task, recipe.precision))
        rates.append(optimizer.param_groups[0]["lr"])
    return result(task, optimizer, losses, evaluations, rates, scaler)


def train_by_division(task: Task, recipe: Recipe) -> Result:
    """What tutorials write for windows that are all full: the loss divided by their number of batches."""
    optimizer = make_optimizer(task, recipe)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    losses = []
    torch.manual_seed(1)
    for _ in range(recipe.epochs):
        for i, (x, y) in enumerate(task.train):
            loss = task.loss(task.model(x), y)
            (loss / recipe.accumulate).backward()
            losses.append(loss.item())
            if (i + 1) % recipe.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return result(task, optimizer, losses, [], [], scaler)


def train_on_tokens(task: Task, recipe: Recipe) -> Result:
    """The mean over a window's tokens, whose number is known only at its end: sum losses, divide gradients.

    A window of one batch is that batch's mean. The losses are of different kinds, so none are given back.
    """
    optimizer = make_optimizer(task, recipe)
    scheduler = make_scheduler(optimizer, recipe)
    scaler = torch.amp.GradScaler("cpu", enabled=recipe.precision == "fp16")
    batches, rates = len(task.train), []
    torch.manual_seed(1)
    for _ in range(recipe.epochs):
        tokens = 0
        for i, (x, y) in enumerate(task.train):
            alone = recipe.accumulate == 1 or (i % recipe.accumulate == 0 and i + 1 == batches)
            with autocast(recipe.precision):
                loss = F.cross_entropy(task.model(x), y, ignore_index=IGNORED, reduction="mean" if alone else "sum")
            scaler.scale(loss).backward()
            tokens += int((y != IGNORED).sum())
            if (i + 1) % recipe.accumulate == 0 or i + 1 == batches:
                for parameter in [] if alone else task.model.parameters():
                    assert parameter.grad is not None
                    parameter.grad.div_(tokens)
                if recipe.clip is not None:
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(task.model.parameters(), recipe.clip)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if scheduler:
                    scheduler.step()
                tokens = 0
        rates.append(optimizer.param_groups[0]["lr"])
    return result(task, optimizer, [], [], rates, scaler)


def result(
    task: Task,
    optimizer: torch.optim.Optimizer,
    losses: list[float],
    evaluations: list[float],
    rates: list[float],
    scaler: torch.amp.GradScaler,
) -> Result:
    """What is compared."""
    weights = {name: value.clone() for name, value in task.model.state_dict().items()}
    states = optimizer.state_dict()["state"]
    return Result(weights, states, losses, evaluations, rates, scaler.get_scale(), torch.get_rng_state())


def train_on_ranks(task: Task, recipe: Recipe, *, tokens: bool = False) -> Result:
    """On many processes: DDP, a DistributedSampler that is told the epoch, no exchange before a window's last batch.

    DDP averages over the processes, so a batch weighs what it holds of the window over all of them, times their number.
    """
    ranks = torch.distributed.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(task.model)
    optimizer = make_optimizer(task, recipe)
    scheduler = make_scheduler(optimizer, recipe)
    scaler = torch.amp.GradScaler("cpu", enabled=recipe.precision == "fp16")
    samples, batches, size = len(task.train.sampler), len(task.train), task.train.batch_size  # type: ignore[arg-type]
    losses, rates = [], []
    torch.manual_seed(1)
    for epoch in range(recipe.epochs):
        task.train.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        weight = torch.zeros(())
        for i, (x, y) in enumerate(task.train):
            start = i - i % recipe.accumulate
            in_window = (min((start + recipe.accumulate) * size, samples) - start * size) * ranks
            last = (i + 1) % recipe.accumulate == 0 or i + 1 == batches
            with nullcontext() if last else model.no_sync():
                with autocast(recipe.precision):
                    if tokens:
                        loss = F.cross_entropy(model(x), y, ignore_index=IGNORED, reduction="sum")
                    else:
                        loss = task.loss(model(x), y) * (len(x) * ranks / in_window)
                scaler.scale(loss).backward()
            losses.append(loss.item())
            weight += (y != IGNORED).sum()
            if last:
                torch.distributed.all_reduce(weight)
                for parameter in task.model.parameters() if tokens else []:
                    assert parameter.grad is not None
                    parameter.grad.div_(weight / ranks)
                weight.zero_()
                if recipe.clip is not None:
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(task.model.parameters(), recipe.clip)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if scheduler:
                    scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return result(task, optimizer, losses, [], rates, scaler)
