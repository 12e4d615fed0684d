"""Batches on the tape: what they take where they are made, and that the script gets the same as without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from flatout.recording.tape import Fetch
from flatout.virtual.clock import Clock
from flatout.virtual.face.loaders import Stopwatch, samples_in
from flatout.virtual.machine import Machine

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
BUSY_SECONDS = 0.02


def work_for(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Slow(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        work_for(BUSY_SECONDS / 2)
        return torch.tensor([index])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(6))


@pytest.fixture
def clock(machine: Machine) -> Iterator[Clock]:
    machine.phase = "forward"
    machine.clock = Clock(machine)
    yield machine.clock
    machine.clock.stop()
    machine.clock = None


def finished(clock: Clock, machine: Machine) -> Any:
    machine.step = 1
    clock.step_completed()
    return clock.tape()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_takes_what_making_it_takes_one_process(clock: Clock, machine: Machine, workers: int) -> None:
    seen = [int(n) for batch in DataLoader(Slow(), 2, num_workers=workers) for n in batch]
    assert seen == list(range(12))
    tape = finished(clock, machine)
    (loader,) = tape.loaders
    assert (loader.workers, loader.samples) == (workers, 2)
    assert BUSY_SECONDS <= loader.batch_seconds < 2 * BUSY_SECONDS
    assert sum(isinstance(event, Fetch) for event in tape.events) == 6


def test_two_loaders_are_told_apart(clock: Clock, machine: Machine) -> None:
    fast, slow = TensorDataset(torch.zeros(8, 3)), Slow()
    for _ in zip(DataLoader(fast, 4), DataLoader(slow, 4)):
        pass
    tape = finished(clock, machine)
    assert [loader.samples for loader in tape.loaders] == [4, 4]
    assert tape.loaders[0].batch_seconds < 0.2 * tape.loaders[1].batch_seconds
    assert [event.loader for event in tape.events if isinstance(event, Fetch)] == [0, 1, 0, 1]


def test_a_stream_of_data(clock: Clock, machine: Machine) -> None:
    assert [batch.tolist() for batch in DataLoader(Stream(), 4)] == [[0, 1, 2, 3], [4, 5]]
    assert finished(clock, machine).loaders[0].samples == 2


def test_shuffled_order_is_that_of_pytorch(clock: Clock) -> None:
    def order() -> list[int]:
        torch.manual_seed(3)
        return [int(n) for batch in DataLoader(TensorDataset(torch.arange(40)), 8, shuffle=True) for n in batch[0]]

    with_clock = order()
    clock.stop()
    assert order() == with_clock


def test_reading_a_file_counts_by_the_clock_on_the_wall_and_work_by_the_processor(tmp_path: Path) -> None:
    with Stopwatch() as asleep:
        time.sleep(0.05)
    with Stopwatch() as busy:
        work_for(0.01)
    assert asleep.seconds >= 0.05
    assert 0.01 <= busy.seconds < 0.02


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(5, 2), 5),
        ([torch.zeros(3, 2), torch.zeros(3)], 3),
        ({"x": {"y": torch.zeros(7)}}, 7),
        ((["a", "b"], torch.zeros(2)), 2),
        (torch.zeros(()), None),
        ("text", None),
        ([], None),
    ],
)
def test_how_many_samples_a_batch_holds(batch: Any, samples: int | None) -> None:
    assert samples_in(batch) == samples
