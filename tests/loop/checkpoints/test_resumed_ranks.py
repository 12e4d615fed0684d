"""Resuming many ranks: the work is in resumed_ranks.py; here its files are read by one process too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from flatout import Loop
from flatout.errors import CheckpointError
from several_processes import launch

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What resumed_ranks.py leaves behind."""
    folder = tmp_path_factory.mktemp("ranks")
    for ended in launch(HERE / "resumed_ranks.py", 2, str(folder), timeout_seconds=TIMEOUT_SECONDS):
        assert "all well" in ended.stdout, ended.stderr
    return folder


def alone() -> tuple[Loop, Any, Any, Any]:
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))), nn.Dropout(0.2), nn.Linear(8, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = [(torch.ones(4), torch.ones(1))] * 22
    return loop, *loop.prepare(model, optimizer, DataLoader(data, batch_size=2, shuffle=True))


def test_two_ranks_go_on_bit_for_bit(folder: Path) -> None:
    assert (folder / "ddp 0 2").exists()


def test_after_an_epoch_the_number_of_ranks_may_change(folder: Path) -> None:
    for place in sorted(folder.glob("* 0 -1")):  # whole tensors, also those of FSDP
        loop, model, optimizer, loader = alone()
        assert loop.resume(place)
        saved = torch.load(next(place.iterdir()), weights_only=True)
        assert list(saved["models"][0]) == list(model.state_dict())
        assert all(torch.equal(value, saved["models"][0][name]) for name, value in model.state_dict().items())
        assert len(optimizer.state) == 10
        assert [epoch for epoch in loop.epochs(2) for _ in loader] == [1] * 11


def test_in_the_middle_of_an_epoch_it_may_not(folder: Path) -> None:
    loop, *_ = alone()
    with pytest.raises(CheckpointError, match=r"in the middle of an epoch by 2 ranks, and there are 1 now") as caught:
        loop.resume(folder / "ddp 0 2")
    assert "resume with 2, or from a checkpoint of an epoch's end" in str(caught.value)
    assert str(caught.value).count("in the middle of an epoch") == 1  # the loaders differ for that reason alone
