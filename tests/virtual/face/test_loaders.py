"""Batches on the tape: what they take where they are made, and that the script gets the same as without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from flatout.recording.tape import Fetch, Loader, Tape, Transfer, Work
from flatout.steps.batches import Notebook, Stopwatch, samples_in
from flatout.virtual.clock import Clock
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


def finished(clock: Clock, machine: Machine) -> Tape:
    machine.step = 1
    clock.step_completed()
    tape = clock.tape()
    assert tape is not None
    return tape


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


def test_two_loaders_of_one_dataset_are_told_apart(clock: Clock, machine: Machine) -> None:
    data = Slow()
    for _ in zip(DataLoader(data, 2, num_workers=1), DataLoader(data, 4, num_workers=1), DataLoader(data, 6)):
        pass
    loaders = finished(clock, machine).loaders
    assert [(loader.workers, loader.samples) for loader in loaders] == [(1, 2), (1, 4), (0, 6)]
    for loader in loaders:
        assert loader.samples is not None
        assert loader.batch_seconds == pytest.approx(loader.samples * BUSY_SECONDS / 2, rel=0.5)


class SlowAtFirst(Dataset[Any]):
    """Its first samples in each process take long, as the first ones of a file do."""

    def __init__(self) -> None:
        self.warm = False

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> int:
        if not self.warm:
            work_for(0.2)
        self.warm = True
        work_for(BUSY_SECONDS / 2)
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_the_first_batch_does_not_count_where_there_are_more(clock: Clock, machine: Machine, workers: int) -> None:
    assert sum(len(batch) for batch in DataLoader(SlowAtFirst(), 2, num_workers=workers)) == 16
    assert BUSY_SECONDS <= finished(clock, machine).loaders[0].batch_seconds < 2 * BUSY_SECONDS


def test_the_only_batch_counts(clock: Clock, machine: Machine) -> None:
    assert len(next(iter(DataLoader(SlowAtFirst(), 16, num_workers=1)))) == 16
    assert finished(clock, machine).loaders[0].batch_seconds >= 0.2


def test_a_notebook_of_more_batches_than_it_has_room_for() -> None:
    notebook = Notebook(2)
    assert notebook.batch_seconds() is None
    notebook.write(1, 9.0)
    assert notebook.batch_seconds() == 9.0
    for number in range(1000):
        notebook.write(1, float(number))
    assert 936 <= (notebook.batch_seconds() or 0.0) <= 999


def test_persistent_workers_and_a_second_pass(clock: Clock, machine: Machine) -> None:
    loader = DataLoader(Slow(), 4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert [int(n) for batch in loader for n in batch] == list(range(12))
    tape = finished(clock, machine)
    assert len(tape.loaders) == 1
    assert sum(isinstance(event, Fetch) for event in tape.events) == 6


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("pinned", [True, False])
def test_pinned_batches_arrive_pinned(clock: Clock, machine: Machine, workers: int, pinned: bool) -> None:
    for batch in DataLoader(TensorDataset(torch.zeros(8, 3)), 4, num_workers=workers, pin_memory=pinned):
        batch[0].to("cuda", non_blocking=True)
    tape = finished(clock, machine)
    assert [event.pinned for event in tape.events if isinstance(event, Transfer)] == [pinned] * 2
    assert tape.loaders[0].pinned is pinned


def test_making_a_batch_is_no_work_of_the_script_and_what_came_before_it_is(clock: Clock, machine: Machine) -> None:
    batches = iter(DataLoader(Slow(), 2))
    torch.ones(2, device="cuda")
    work_for(BUSY_SECONDS)
    next(batches)
    torch.ones(2, device="cuda")
    tape = finished(clock, machine)
    told = [event for event in tape.events if isinstance(event, (Work, Fetch)) and getattr(event, "seconds", 1) > 0.01]
    assert [type(event) for event in told] == [Work, Fetch]
    assert BUSY_SECONDS <= told[0].seconds < 2 * BUSY_SECONDS  # type: ignore[union-attr]


def test_a_prepared_loader_of_accelerate(clock: Clock, machine: Machine) -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = accelerate.Accelerator().prepare(DataLoader(Slow(), 3))
    assert sum(len(batch) for batch in loader) == 12
    (found,) = finished(clock, machine).loaders
    assert isinstance(found, Loader)
    assert found.samples == 3
    assert BUSY_SECONDS * 1.5 <= found.batch_seconds < BUSY_SECONDS * 3
