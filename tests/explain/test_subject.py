"""A saving is the difference of two replays."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.explain.subject import Subject
from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.tape import Event, Launch, Tape, Transfer, Wait, Work
from flatout.timeline import Host, play

Make = Callable[..., Subject]
GPU = find("t4")
PRODUCT = Operation("aten::mm", (tensor((1024, 1024)), tensor((1024, 1024))), outputs=(tensor((1024, 1024)),))
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.just(Launch(0)),
    st.just(Wait(0, "read one value")),
    st.floats(1e-5, 5e-3).map(Work),
    st.builds(Transfer, st.sampled_from(["to_gpu", "to_host"]), st.integers(1, 10**8), st.booleans(), st.booleans()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=12))
def test_a_step_without_its_waits_is_never_longer(events: list[Event]) -> None:
    whole = Tape(tuple(events), operations=(PRODUCT,))
    fewer = Tape(tuple(event for event in events if not isinstance(event, Wait)), operations=(PRODUCT,))
    assert play(fewer, GPU, Host()).step_seconds <= play(whole, GPU, Host()).step_seconds * 1.005 + 1e-9


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=12))
def test_the_parts_of_a_step_add_up(events: list[Event]) -> None:
    timeline = play(Tape(tuple(events), operations=(PRODUCT,)), GPU, Host())
    assert abs(sum(timeline.bound_by.values()) - timeline.step_seconds) <= 1e-6 * timeline.step_seconds + 1e-12
    assert timeline.step_seconds >= timeline.lower_bound_seconds


def test_what_saves_less_than_a_hundredth_is_not_worth_a_word(subject: Make) -> None:
    one = subject(*[Launch(0)] * 10, Work(1e-6))
    assert one.saving(one.with_events(one.tape.events[:-1])) is None


def test_a_saving_lies_between_its_low_and_its_high(subject: Make) -> None:
    one = subject(Launch(0), Wait(0, "read one value"), Work(5e-3))
    saving = one.saving(one.with_events([Launch(0), Work(5e-3)]))
    assert saving is not None
    assert saving.low is not None
    assert saving.high is not None
    assert saving.low <= (saving.seconds_per_step or 0) <= saving.high
