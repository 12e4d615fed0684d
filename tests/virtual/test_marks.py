"""Events of CUDA that one step records and a later one waits for."""

from __future__ import annotations

import pytest

from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.tape import Event, Follow, Launch, Record, Tape, Transfer
from flatout.timeline import Host, play
from flatout.virtual.marks import Marks

SMALL = Operation("aten::relu", (tensor((16,)),), outputs=(tensor((16,)),))


def recorded(marks: Marks, steps: int, lag: int) -> list[tuple[Event, ...]]:
    """In each step a batch is copied for the step `lag` later, which waits for its event."""
    events: list[int] = []
    found: list[tuple[Event, ...]] = []
    for step in range(steps):
        copy = Transfer("to_gpu", 10**8, pinned=True, blocking=False, stream=1)
        made = marks.record(1)
        events.append(made.event)
        waits = (Follow(events[step - lag], 0),) if step >= lag else ()
        found.append((*waits, Launch(0), copy, made))
        marks.step_completed()
    return found


@pytest.mark.parametrize("lag", [0, 1, 2, 3])
@pytest.mark.parametrize("kept", [1, 2])
def test_an_event_of_an_earlier_step_is_found_when_the_steps_come_round(lag: int, kept: int) -> None:
    marks = Marks()
    steps = recorded(marks, 5, lag)
    events = marks.repeatable(steps[-kept:])
    there = {event.event for event in events if isinstance(event, Record)}
    waited = [event.event for event in events if isinstance(event, Follow)]
    assert len(waited) == kept
    assert set(waited) <= there
    if lag == 1 and kept == 2:
        assert waited == [events[-1].event, events[3].event]  # type: ignore[union-attr]


def test_a_step_that_waits_for_the_copy_of_the_one_before_is_as_long_as_the_copy() -> None:
    marks = Marks()
    tape = Tape(marks.repeatable(recorded(marks, 5, 1)[-1:]), operations=(SMALL,))
    gpu, host = find("a100"), Host()
    alone = play(Tape((Transfer("to_gpu", 10**8, True, False, 1),)), gpu, host).step_seconds
    assert play(tape, gpu, host).step_seconds == pytest.approx(alone, rel=0.01)


def test_an_event_from_before_the_first_step_stays_what_it_is() -> None:
    marks = Marks()
    before = marks.record(0).event
    marks.step_completed()
    marks.step_completed()
    assert marks.repeatable([(Follow(before, 0),)]) == (Follow(before, 0),)
