"""Trainings of two processes, stopped and resumed. A script that each rank runs; it fails where something differs.

RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python resumed_ranks.py FOLDER
"""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from flatout import Loop
from flatout.errors import CheckpointError, UsageError

SHARDS_ON_CPU = hasattr(torch.cpu.Stream, "record_event")


class Noisy(Dataset[Any]):
    def __len__(self) -> int:
        return 22

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((4,), i / 22) + 0.1 * torch.randn(4) * random.random(), torch.tensor([i / 22])


class Stopped(Exception):
    pass


def model_of(width: int = 8) -> nn.Module:
    blocks = [nn.Linear(width, width) for _ in range(3)]
    return nn.Sequential(nn.Linear(4, width), nn.Sequential(*blocks), nn.Dropout(0.2), nn.Linear(width, 1))


class Training:
    def __init__(self, strategy: str, width: int = 8) -> None:
        torch.manual_seed(0)
        self.loop = Loop(device="cpu", strategy=strategy, accumulate=2, clip_norm=0.5, quiet=True)
        model = model_of(width)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loader = DataLoader(Noisy(), batch_size=2, shuffle=True)  # 6 batches on each rank, the last of 1
        self.model, self.optimizer, self.loader = self.loop.prepare(model, optimizer, loader)

    def run(self, folder: Path | None = None, stop: tuple[int, int] = (9, 9)) -> dict[str, Any]:
        """Train two epochs; with a folder, save in the body of batch `stop` (-1: after the epoch) and stop."""
        rank = self.loop.ranks.rank
        torch.manual_seed(10 + rank)
        random.seed(10 + rank)
        for epoch in self.loop.epochs(2):
            for x, y in self.loader:
                batch = self.loop._cursor.batch
                assert batch is not None
                if folder is not None and self.loop.ranks.any(folder.exists()):
                    raise Stopped
                with self.loop.step():
                    self.loop.log(loss=self.loop.backward(nn.functional.mse_loss(self.model(x), y)))
                if folder is not None and (epoch, batch.number) == stop:
                    self.loop.save(folder)
            if folder is not None and (epoch, -1) == stop:
                self.loop.save(folder)
                raise Stopped
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "means": self.loop.metrics(),
            "random": (torch.rand(2), random.random()),
        }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        one, other = (part.to_local() if hasattr(part, "to_local") else part for part in (one, other))
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def stopped_and_resumed(strategy: str, root: Path) -> None:
    whole = Training(strategy).run()
    for stop in ((0, 2), (1, 1), (1, 5), (0, -1)):
        folder = root / f"{strategy} {stop[0]} {stop[1]}"
        stopped = Training(strategy)
        with contextlib.suppress(Stopped):  # in the last body it is made as the loader is asked for one more
            stopped.run(folder, stop)
        again = Training(strategy)
        assert again.loop.resume(folder)
        assert same(again.run(), whole), (strategy, stop)
    if strategy == "fsdp":
        assert any(hasattr(p, "to_local") for p in Training(strategy).model.parameters())


def from_one_strategy_to_the_other(root: Path) -> None:
    """Both save whole tensors, so the weights of one are those of the other."""
    ddp, fsdp = Training("ddp"), Training("fsdp")
    assert fsdp.loop.resume(root / "ddp 0 -1")
    assert ddp.loop.resume(root / "ddp 0 -1")
    for name, value in fsdp.model.state_dict().items():
        assert torch.equal(value.full_tensor(), ddp.loop.unwrap(ddp.model).state_dict()[name])


def errors_are_everyones(root: Path) -> None:
    """What goes wrong on the first rank, which writes, is raised on all."""
    training = Training("ddp")
    if training.loop.ranks.is_first:
        (root / "file").touch()
    training.loop.ranks.barrier()
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: training.loop.save(root / "file"), CheckpointError),
        (lambda: training.loop.save(root / "odd", odd=object()), UsageError),
        (lambda: Training("ddp", width=9).loop.resume(root / "ddp 0 2"), CheckpointError),
        (lambda: training.loop.resume(root / "nowhere.pt"), CheckpointError),
    ]
    for call, kind in calls:
        with pytest.raises(kind):
            call()
    assert not training.loop.resume(root / "nowhere")
    training.loop.save(root / "file", wait=False)
    with pytest.raises(CheckpointError, match="File exists"):
        training.loop.save(root / "fine")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    stopped_and_resumed("ddp", place)
    if SHARDS_ON_CPU:
        stopped_and_resumed("fsdp", place)
        from_one_strategy_to_the_other(place)
    errors_are_everyones(place)
    print("all well")
