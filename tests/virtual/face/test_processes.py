"""Forked children and data loaders."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.usefixtures("machine")
fork_only = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3,), float(index)).to(self.device)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=fork_only)])
def test_loaders_pin_memory(workers: int) -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers, pin_memory=True)
    batches = list(loader)
    assert [batch.is_pinned() for batch in batches] == [True, True]
    assert batches[1].cuda(non_blocking=True)[0].tolist() == [4, 4, 4]


@fork_only
def test_cuda_in_a_forked_worker_is_refused_word_for_word() -> None:
    torch.ones(1, device="cuda")
    loader = DataLoader(Numbers("cuda"), batch_size=4, num_workers=1)
    message = (
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn'"
    )
    with pytest.raises(RuntimeError, match=message):
        list(loader)


_UNINSTALL = """
import torch
from flatout.gpu import find
from flatout.virtual.boot import boot
zeros, numpy, version = torch.zeros, torch.Tensor.numpy, torch.version.cuda
machine = boot(find("a100-40gb"))
assert torch.cuda.is_available() and torch.zeros is not zeros
torch.ones(3, device="cuda").sum().item()
machine.face.uninstall()
assert torch.Tensor.numpy is numpy
assert not torch.cuda.is_available() and torch.version.cuda == version
assert type(torch.device) is type and torch.zeros(2).tolist() == [0, 0] and torch.Generator().device.type == "cpu"
"""


def test_everything_can_be_put_back() -> None:
    done = subprocess.run([sys.executable, "-c", _UNINSTALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
