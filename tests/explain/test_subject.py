"""A saving is the difference of two replays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.explain import findings
from flatout.explain.subject import Subject
from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.tape import Enter, Event, Fetch, Launch, Loader, Tape, Transfer, Wait, Work
from flatout.timeline import Host, Prices, play, step_seconds

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


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=12), st.sampled_from([1 / 1.2, 1.0, 1.2]))
def test_a_step_that_is_only_timed_is_as_long_as_one_that_is_taken_apart(events: list[Event], slower: float) -> None:
    """Prices that were worked out for another tape are those of this one."""
    tape = Tape(tuple(events), operations=(PRODUCT,))
    prices = Prices(GPU, slower=slower)
    step_seconds(Tape((Launch(0),), operations=(PRODUCT,)), Host(), prices)
    assert step_seconds(tape, Host(), prices) == play(tape, GPU, Host(), slower=slower).step_seconds


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(EVENTS, st.just(Fetch(0)), st.just(Enter("optimizer"))), min_size=1, max_size=12))
def test_no_finding_saves_more_than_the_step_and_all_are_worth_a_word(events: list[Event]) -> None:
    for gpu in ("a100", "t4"):
        tape = Tape(tuple(events), operations=(PRODUCT,), loaders=(Loader(3e-3),))
        one = Subject(tape, find(gpu), Host(cores=3))
        found = findings(tape, one.gpu, one.host)
        savings = [finding.saving.seconds_per_step or 0.0 for finding in found if finding.saving is not None]
        assert savings == sorted(savings, reverse=True)
        assert len(savings) == len(found)
        assert all(one.worth_seconds <= saved <= one.timeline.step_seconds for saved in savings)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=12))
def test_all_remedies_together_save_no_more_than_the_step(events: list[Event]) -> None:
    """Waits and blocking copies gone, and the products on tensor cores: each step of that is no longer than before."""
    gpu = find("a100")
    plain = Tape(tuple(events), operations=(PRODUCT,))
    unwaited = tuple(event for event in events if not isinstance(event, Wait))
    free = tuple(
        msgspec.structs.replace(event, pinned=True, blocking=False) if isinstance(event, Transfer) else event
        for event in unwaited
    )
    tapes = [plain, Tape(unwaited, operations=(PRODUCT,)), Tape(free, operations=(PRODUCT,))]
    tapes.append(Tape(free, operations=(msgspec.structs.replace(PRODUCT, tf32=True),)))
    seconds = [play(tape, gpu, Host()).step_seconds for tape in tapes]
    assert all(later <= before * 1.005 + 1e-9 for before, later in pairwise(seconds))
    assert seconds[-1] >= play(tapes[-1], gpu, Host()).lower_bound_seconds


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
