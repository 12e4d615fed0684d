"""What the host took, measured in one run and taken for another."""

from __future__ import annotations

import msgspec

from flatout.recording.schema import Place
from flatout.recording.tape import Enter, Event, Fetch, Loader, Tape, Work
from flatout.virtual.one_host import as_measured_in

PLACES = (Place("train.py", 1), Place("train.py", 2))


def tape(batch_seconds: float, *events: Event) -> Tape:
    return Tape(events, places=PLACES, loaders=(Loader(batch_seconds, workers=2, samples=8),))


def test_batches_and_work_are_those_of_the_other() -> None:
    mine = tape(0.5, Fetch(0, 0), Enter("forward"), Work(0.3, 1), Enter("backward"), Work(0.4, 0))
    theirs = tape(0.1, Fetch(0, 0), Work(0.01, 1), Work(0.02, 0))
    found = as_measured_in(mine, theirs)
    assert found.loaders == theirs.loaders
    assert [event for event in found.events if isinstance(event, Work)] == [Work(0.01, 1), Work(0.02, 0)]
    assert [type(event) for event in found.events] == [type(event) for event in mine.events]


def test_work_at_other_lines_stays_as_it_is() -> None:
    mine = tape(0.5, Fetch(0, 0), Work(0.3, 1))
    found = as_measured_in(mine, tape(0.1, Fetch(0, 0), Work(0.01, 0)))
    assert found.events == mine.events
    assert found.loaders[0].batch_seconds == 0.1


def test_other_loaders_stay_as_they_are() -> None:
    mine = tape(0.5, Fetch(0, 0))
    other = msgspec.structs.replace(mine, loaders=(Loader(0.1, workers=0, samples=8),))
    assert as_measured_in(mine, other) == mine


def test_of_itself_it_is_itself() -> None:
    mine = tape(0.5, Fetch(0, 0), Work(0.3, 1))
    assert as_measured_in(mine, mine) == mine
