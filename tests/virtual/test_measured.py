"""What a busy machine adds to the host's work is taken out, what the script does is not."""

from __future__ import annotations

from flatout.recording.tape import Event, Launch, Loader, Work
from flatout.virtual.measured import typical_loader, typical_work

LAUNCH = Launch(0)


def test_work_is_as_long_as_in_the_least_disturbed_step() -> None:
    steps: list[tuple[Event, ...]] = [
        (Work(5e-3, 1), LAUNCH, Work(4e-3, 1), Work(9e-3, 2)),
        (Work(3e-3, 1), LAUNCH, Work(6e-3, 1), Work(9e-3, 2)),
    ]
    settled = (Work(3e-3, 1), LAUNCH, Work(4e-3, 1), Work(9e-3, 2))
    assert typical_work(steps) == [settled, settled]


def test_short_work_of_one_step_alone_is_a_disturbance_and_long_work_is_not() -> None:
    steps: list[tuple[Event, ...]] = [(Work(3e-3, 1), LAUNCH, Work(0.5, 2)), (LAUNCH,)]
    assert typical_work(steps) == [(LAUNCH, Work(0.5, 2)), (LAUNCH,)]


def test_one_step_is_as_it_is() -> None:
    assert typical_work([(Work(3e-3, 1), LAUNCH)]) == [(Work(3e-3, 1), LAUNCH)]
    assert typical_work([]) == []


def test_a_loader_takes_the_median_without_its_first_batch() -> None:
    seen = [Loader(seconds) for seconds in (0.9, 0.1, 0.3, 0.2)]
    assert typical_loader(seen).batch_seconds == 0.2
    assert typical_loader(seen[:1]).batch_seconds == 0.9


def test_an_average_of_workers_is_taken_as_it_came_last() -> None:
    assert typical_loader([Loader(0.9, 2), Loader(0.5, 2)]).batch_seconds == 0.5
