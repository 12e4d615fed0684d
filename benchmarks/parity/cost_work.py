"""What is trained in the measurement of cost, by a plain loop and by Loop. Both read their losses as they usually are.

Shapes: B samples of a batch, T tokens of a text.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed.nn.functional  # before the group is made, or its default arguments keep it for good
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import flatout

VOCABULARY = 96


class Work(NamedTuple):
    """A workload: its model, inputs and targets of one epoch, and how it is trained."""

    model: Callable[[], nn.Module]
    data: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    batch_size: int
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = F.cross_entropy
    precision: str = "fp32"
    ranks: int = 1


class Convnet(nn.Module):
    """Images of shape (B, 3, 32, 32) to 10 classes."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [3, width, 2 * width, 4 * width]
        self.layers = nn.Sequential()
        for before, after in itertools.pairwise(widths):
            self.layers += nn.Sequential(
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
            )
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class GPT(nn.Module):
    """Token numbers of shape (B, T) to logits of shape (B, VOCABULARY, T)."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.blocks(self.tokens(ids), mask=mask, is_causal=True)).transpose(1, 2)


def _perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def _texts() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(VOCABULARY, (512, 65))
    return ids[:, :-1], ids[:, 1:]


WORKS = {
    "one number": Work(
        lambda: nn.Linear(1, 1, bias=False), lambda: (torch.randn(4096, 1), torch.randn(4096, 1)), 4, F.mse_loss
    ),
    "MLP, steps of 1 ms": Work(_perceptron, lambda: (torch.randn(4096, 256), torch.randint(10, (4096,))), 32),
    "CNN": Work(Convnet, lambda: (torch.randn(512, 3, 32, 32), torch.randint(10, (512,))), 32),
    "GPT": Work(GPT, _texts, 16),
    "GPT, bf16": Work(GPT, _texts, 16, precision="bf16"),
    "CNN, 2 processes": Work(Convnet, lambda: (torch.randn(512, 3, 32, 32), torch.randint(10, (512,))), 16, ranks=2),
}


def _setup(work: Work) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model, dataset = work.model(), TensorDataset(*work.data())
    sampler = DistributedSampler(dataset, seed=0) if work.ranks > 1 else None
    order = torch.Generator().manual_seed(0)  # of its own: both arms draw in one process
    loader = DataLoader(
        dataset, work.batch_size, shuffle=sampler is None, sampler=sampler, drop_last=True, generator=order
    )
    return model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), loader


class Plain:
    """A plain loop that can be stopped after any number of steps and goes on from there."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.model, self.optimizer, self.loader = _setup(work)
        self.wrapped = DistributedDataParallel(self.model) if work.ranks > 1 else self.model
        low = torch.bfloat16 if work.precision == "bf16" else None
        self.autocast: Callable[[], Any] = (lambda: torch.autocast("cpu", dtype=low)) if low else nullcontext
        self.epoch = 0
        self._batches: Iterator[Any] = iter(())

    def train(self, steps: int) -> float:
        """So many steps; the mean of their losses."""
        model, optimizer, loss_of, autocast = self.wrapped, self.optimizer, self.work.loss, self.autocast
        total = 0.0
        left = steps
        while left:
            for x, y in self._batches:
                with autocast():
                    loss = loss_of(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
                left -= 1
                if not left:
                    break
            else:
                if isinstance(self.loader.sampler, DistributedSampler):
                    self.loader.sampler.set_epoch(self.epoch)
                self.epoch += 1
                self._batches = iter(self.loader)
        return self._over_all_ranks(total) / steps

    def _over_all_ranks(self, number: float) -> float:
        if self.work.ranks == 1:
            return number
        mean = torch.tensor(number / self.work.ranks, dtype=torch.float64)
        torch.distributed.all_reduce(mean)
        return mean.item()


class Looped:
    """The same with Loop."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.loop = flatout.Loop(device="cpu", precision=work.precision, quiet=True)
        self.model, self.optimizer, self.loader = self.loop.prepare(*_setup(work))
        self._epochs = self.loop.epochs(10**9)
        self._batches: Iterator[Any] = iter(())

    def train(self, steps: int) -> float:
        """So many steps; the mean of their losses."""
        loop, model, loss_of = self.loop, self.model, self.work.loss
        left = steps
        while left:
            for x, y in self._batches:
                with loop.step():
                    loss = loop.backward(loss_of(model(x), y))
                loop.log(loss=loss)
                left -= 1
                if not left:
                    break
            else:
                next(self._epochs)
                self._batches = iter(self.loader)
        return loop.metrics()["loss"]


ARMS: dict[str, Callable[[Work], Plain | Looped]] = {"plain": Plain, "loop": Looped, "again": Plain}
"""`again` is the plain loop once more: how far two copies of the same program are apart by where their memory lies."""


def peak_resident_bytes() -> int | None:
    """The most memory that this process has had in RAM. None where the system does not tell (it is Linux that does)."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return None


def alternate(work: Work, block_steps: int, blocks: int, first: int = 0) -> dict[str, Any]:
    """All arms in one process, made in another order for each `first`, in blocks of steps that take turns.

    Gives the seconds of each block, and the mean losses. `cpu_seconds`: what the processor worked for this process;
    other programs on the machine disturb it less.
    """
    names = [*ARMS][first % len(ARMS) :] + [*ARMS][: first % len(ARMS)]
    arms = {name: ARMS[name](work) for name in names}
    for arm in arms.values():
        arm.train(block_steps)  # start-up apart
    seconds: dict[str, list[float]] = {name: [] for name in ARMS}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ARMS}
    losses: dict[str, list[float]] = {name: [] for name in ARMS}
    for i in range(blocks):
        for name in names if i % 2 == 0 else reversed(names):
            started, worked = time.perf_counter(), time.process_time()
            losses[name].append(arms[name].train(block_steps))
            seconds[name].append(time.perf_counter() - started)
            cpu_seconds[name].append(time.process_time() - worked)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "losses": losses}


def alone(work: Work, arm: str, steps: int, process_started: float) -> dict[str, Any]:
    """One arm in this process: start-up until the first step is through, then `steps`, and the peak of memory."""
    trainer = ARMS[arm](work)
    trainer.train(1)
    startup = time.time() - process_started
    started = time.perf_counter()
    loss = trainer.train(steps)
    seconds = time.perf_counter() - started
    return {"startup_seconds": startup, "seconds": seconds, "loss": loss, "peak_bytes": peak_resident_bytes()}


def join(work: Work) -> None:
    """The process group, for a work of more than one rank."""
    if work.ranks > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=work.ranks)
