"""Seeds in the workers: what is drawn depends on the sample and the epoch, not on who fetches it."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.data.seeding import mix
from flatout.loop.processes.distributed import Ranks

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on one core
CPU = torch.device("cpu")


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 10**6))
def test_mix_is_a_64_bit_number_and_depends_on_each_argument(base: int, number: int) -> None:
    assert 0 <= mix(base, number) < 2**64
    assert mix(base, number) != mix(base, number + 1)
    assert mix(base, number) != mix(base + 1, number)


def test_mix_of_neighbours_is_unrelated() -> None:
    mixed = [mix(0, number) for number in range(4096)]
    assert len(set(mixed)) == 4096
    flipped = [bin(one ^ other).count("1") for one, other in itertools.pairwise(mixed)]
    assert 31 < sum(flipped) / len(flipped) < 33  # half of 64 bits


class Noise(Dataset[Any]):
    """A sample is what each stream gives when it is fetched."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(0)
        self.python = random.Random(0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        draws = [np.random.rand(), random.random(), torch.rand(()).item(), self.own.random(), self.python.random()]
        return index, torch.tensor(draws, dtype=torch.float64)


def augmented(workers: int, *, persistent: bool = False, epochs: int = 2) -> torch.Tensor:
    """The draws of each epoch, sample by sample in the order of the indices: of shape (epochs, 12, 5)."""
    torch.manual_seed(0)
    source = DataLoader(Noise(), 2, shuffle=True, num_workers=workers, persistent_workers=persistent)
    loader = PreparedLoader(source, CPU, Ranks(), Cursor())
    result = torch.zeros(epochs, 12, 5, dtype=torch.float64)
    for epoch in range(epochs):
        for indices, draws in loader:
            result[epoch, indices] = draws
    return result


def test_augmentation_differs_by_sample_worker_and_epoch_and_not_by_the_number_of_workers() -> None:
    one = augmented(1)
    for stream in range(5):
        assert one[:, :, stream].unique().numel() == 24  # also across two workers and two epochs, for it is equal:
    assert torch.equal(augmented(2), one)
    assert torch.equal(augmented(3), one)


def test_augmentation_differs_by_epoch_where_the_users_own_workers_persist() -> None:
    draws = augmented(2, persistent=True, epochs=3)
    for stream in range(5):
        assert draws[:, :, stream].unique().numel() == 36


def test_plain_workers_repeat_a_generator_of_the_datasets_own() -> None:
    """The trap that seeding each batch avoids: every worker, in every epoch, holds a copy in the same state."""
    torch.manual_seed(0)
    source = DataLoader(Noise(), 2, num_workers=2)
    seen = torch.cat([draws[:, 3] for _ in range(2) for _, draws in source])
    assert seen.unique().numel() == 6  # of 24
