"""Stopped in the middle of the second epoch and started again: which samples come next?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from traps import USERS, Cell

TITLE = "Resume within an epoch"
MEASURES = "samples right after a resume in the middle of the 2nd epoch, of 6 in it and 12 in the 3rd"
RIGHT = "18"
RANKS = 1
EPOCHS, STOP_EPOCH, STOP_BATCH = 3, 1, 6


def _setup() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    """As a script starts: the seed first."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    loader: DataLoader[Any] = DataLoader(list(range(12)), 1, shuffle=True)  # type: ignore[arg-type]
    return model, torch.optim.SGD(model.parameters(), lr=0.1), loader


def _cell(whole: list[int], resumed: list[int], note: str = "") -> Cell:
    """`whole`: the samples of a run that was not stopped, from the place of the stop on."""
    right = sum(a == b for a, b in zip(whole, resumed)) if len(whole) == len(resumed) else 0
    return Cell(str(right), right == len(whole), note)


def naive() -> Cell:
    """The checkpoint has the weights, the optimizer, the epoch and the batch; batches seen are skipped."""
    checkpoint: dict[str, Any] = {}

    def run(resume: bool) -> list[int]:
        model, optimizer, loader = _setup()
        first, skip, seen = 0, 0, []
        if resume:
            model.load_state_dict(checkpoint["model"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            first, skip = checkpoint["epoch"], checkpoint["batch"]
        for epoch in range(first, EPOCHS):
            for batch, x in enumerate(loader):
                if epoch == first and batch < skip:
                    continue
                if not resume and (epoch, batch) == (STOP_EPOCH, STOP_BATCH):
                    model_state, optimizer_state = model.state_dict(), optimizer.state_dict()
                    checkpoint.update(model=model_state, optimizer=optimizer_state, epoch=epoch, batch=batch)
                    seen = []
                seen.append(int(x))
        return seen

    return _cell(run(False), run(True))


def _accelerate(seedable: bool) -> Cell:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState
    from accelerate.utils import DataLoaderConfiguration

    def run(folder: str, resume: bool) -> list[int]:
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        options: dict[str, Any] = {}
        if seedable:
            options["dataloader_config"] = DataLoaderConfiguration(use_seedable_sampler=True)
        accelerator = Accelerator(cpu=True, **options)
        _, _, loader = accelerator.prepare(*_setup())
        first, skip, seen = 0, 0, []
        if resume:
            accelerator.load_state(folder)
            first, skip = STOP_EPOCH, STOP_BATCH
        for epoch in range(first, EPOCHS):
            loader.set_epoch(epoch)
            batches = accelerator.skip_first_batches(loader, skip) if resume and epoch == first else loader
            for batch, x in enumerate(batches):
                if not resume and (epoch, batch) == (STOP_EPOCH, STOP_BATCH):
                    accelerator.save_state(folder)
                    seen = []
                seen.append(int(x))
        return seen

    with tempfile.TemporaryDirectory() as folder:
        return _cell(run(folder, False), run(folder, True), "`use_seedable_sampler=True`" if seedable else "")


def accelerate() -> Cell:
    return _accelerate(False)


def accelerate_best() -> Cell:
    return _accelerate(True)


def loop() -> Cell:
    import flatout

    def run(folder: Path, resume: bool) -> list[int]:
        loop = flatout.Loop(device="cpu", quiet=True)
        model, _, loader = loop.prepare(*_setup())
        seen: list[int] = []
        if resume:
            assert loop.resume(folder)
        for epoch in loop.epochs(EPOCHS):
            for batch, x in enumerate(loader):
                seen.append(int(x))
                with loop.step():
                    loop.backward(model(x.float().view(1, 1)).mean())
                if not resume and (epoch, batch) == (STOP_EPOCH, STOP_BATCH - 1):
                    loop.save(folder)
                    seen = []
        return seen

    with tempfile.TemporaryDirectory() as folder:
        return _cell(run(Path(folder), False), run(Path(folder), True))


COLUMNS = {
    "naive": naive,
    "accelerate": accelerate,
    "accelerate_best": accelerate_best,
    "fabric": Cell(USERS, None, "saves what it is given; the place in the epoch is the user's"),
    "loop": loop,
}
