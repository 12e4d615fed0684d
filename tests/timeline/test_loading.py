"""When batches are there: workers, what they make ahead, cores that they share, and who takes batches over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.gpu import find
from flatout.recording.tape import Fetch, Loader, Tape, Work, with_workers
from flatout.timeline import Host, play
from flatout.timeline.loading import Batches

GPU = find("a100")
SECONDS = st.floats(1e-4, 1.0)


def step_seconds(
    batch_seconds: float, work_seconds: float, workers: int, prefetch_factor: int, cores: int, scale: float = 1.0
) -> float:
    loader = Loader(batch_seconds, workers, prefetch_factor)
    tape = Tape((Fetch(0), Work(work_seconds)), loaders=(loader,))
    return play(tape, GPU, Host(cores=cores, handover_seconds=0, scale=scale)).step_seconds


@given(SECONDS, SECONDS, st.integers(1, 12), st.integers(1, 4))
def test_steps_are_as_long_as_the_slower_side(batch: float, work: float, workers: int, ahead: int) -> None:
    found = step_seconds(batch, work, workers, ahead, cores=64)
    assert abs(found - max(work, batch / workers)) <= 0.02 * found


@given(SECONDS, SECONDS)
def test_without_workers_the_host_makes_the_batch(batch: float, work: float) -> None:
    found = step_seconds(batch, work, 0, 2, cores=64)
    assert abs(found - (batch + work)) <= 1e-6 * found


@given(SECONDS, SECONDS, st.integers(2, 12), st.integers(1, 16))
def test_fewer_cores_make_batches_no_faster_than_they_can(batch: float, work: float, workers: int, cores: int) -> None:
    found = step_seconds(batch, work, workers, 2, cores)
    assert abs(found - max(work, batch / min(workers, max(1, cores - 1)))) <= 0.02 * found


@given(SECONDS, SECONDS, st.integers(0, 4), st.floats(0.25, 4.0))
def test_another_host_takes_all_of_it_so_many_times_as_long(
    batch: float, work: float, workers: int, scale: float
) -> None:
    here, there = (step_seconds(batch, work, workers, 2, 64, scale=by) for by in (1.0, scale))
    assert there == pytest.approx(scale * here, rel=1e-2)


def test_workers_share_the_cores() -> None:
    assert step_seconds(1.0, 0.01, 8, 2, cores=3) == step_seconds(1.0, 0.01, 2, 2, cores=64)


@given(
    SECONDS,
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.floats(0.0, 2.0), min_size=1, max_size=40),
)
def test_batches_are_there_as_in_pytorchs_own_loop(
    seconds: float, workers: int, ahead: int, pauses: list[float]
) -> None:
    """Beside it the rule of `_MultiProcessingDataLoaderIter`, task by task: so many tasks are given out at the start,
    to the workers in turn, and one more whenever a batch is taken."""
    batches = Batches(Loader(seconds, workers, ahead), Host(cores=64, handover_seconds=0))
    given_out = [0.0] * (workers * ahead)
    done: list[float] = []
    now = 0.0
    for number, pause in enumerate(pauses):
        now += pause
        before = done[number - workers] if number >= workers else 0.0
        done.append(max(given_out[number], before) + seconds)
        got = batches.take(now)
        assert got == pytest.approx(max(now, done[number]))
        now = got
        given_out.append(now)


def test_after_a_long_pause_what_was_made_ahead_is_there_at_once() -> None:
    batches = Batches(Loader(1.0, workers=3, prefetch_factor=2), Host(cores=64, handover_seconds=0))
    assert [batches.take(10.0) for _ in range(7)] == [10.0] * 6 + [11.0]


def test_the_host_takes_batches_over_itself_and_a_thread_does_where_they_are_pinned() -> None:
    host = Host(cores=64, handover_seconds=1e-3)
    plain = Tape((Fetch(0), Work(5e-3)), loaders=(Loader(2e-3, 4),))
    pinned = Tape((Fetch(0), Work(5e-3)), loaders=(Loader(2e-3, 4, pinned=True),))
    assert play(plain, GPU, host).step_seconds == pytest.approx(6e-3)
    assert play(pinned, GPU, host).step_seconds == pytest.approx(5e-3)


def test_that_thread_takes_one_after_another() -> None:
    pinned = Tape((Fetch(0), Work(0.2e-3)), loaders=(Loader(1e-3, 8, pinned=True),))
    assert play(pinned, GPU, Host(cores=64, handover_seconds=1e-3)).step_seconds == pytest.approx(1e-3)


def test_other_workers_in_one_loader_or_in_all() -> None:
    tape = Tape((), loaders=(Loader(1.0, 2), Loader(1.0, 3)))
    assert [loader.workers for loader in with_workers(tape, 7).loaders] == [7, 7]
    assert [loader.workers for loader in with_workers(tape, 0, number=1).loaders] == [2, 0]
