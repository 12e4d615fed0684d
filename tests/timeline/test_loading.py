"""When batches are there: workers, what they make ahead, and cores that they share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flatout.gpu import find
from flatout.recording.tape import Fetch, Loader, Tape, Work
from flatout.timeline import Host, play

GPU = find("a100")


def step_seconds(batch_seconds: float, work_seconds: float, workers: int, prefetch_factor: int, cores: int) -> float:
    loader = Loader(batch_seconds, workers, prefetch_factor)
    tape = Tape((Fetch(0), Work(work_seconds)), loaders=(loader,))
    return play(tape, GPU, Host(cores=cores, handover_seconds=0)).step_seconds


@given(
    st.floats(1e-4, 1.0),
    st.floats(1e-4, 1.0),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_steps_are_as_long_as_the_slower_side(batch: float, work: float, workers: int, ahead: int) -> None:
    found = step_seconds(batch, work, workers, ahead, cores=64)
    assert abs(found - max(work, batch / workers)) <= 0.02 * found


@given(st.floats(1e-4, 1.0), st.floats(1e-4, 1.0))
def test_without_workers_the_host_makes_the_batch(batch: float, work: float) -> None:
    found = step_seconds(batch, work, 0, 2, cores=64)
    assert abs(found - (batch + work)) <= 1e-6 * found


def test_workers_share_the_cores() -> None:
    assert step_seconds(1.0, 0.01, 8, 2, cores=3) == step_seconds(1.0, 0.01, 2, 2, cores=64)
