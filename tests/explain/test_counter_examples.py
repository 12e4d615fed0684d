"""What looks like a mistake and costs nothing is not reported: the saving is replayed, never the event's own time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flatout.explain.rules import batches, copies, host_waits
from flatout.explain.subject import Subject
from flatout.recording.tape import Enter, Event, Fetch, Launch, Loader, Tape, Transfer, Wait, Work, with_workers
from flatout.timeline import play

Make = Callable[..., Subject]
LONG = [Launch(0)] * 3
READ = Wait(0, "read one value", 3)


def without(subject: Subject, unwanted: Event) -> Tape:
    return subject.with_events(event for event in subject.tape.events if event is not unwanted)


def test_a_wait_that_costs_nothing_because_the_gpu_is_the_slower_lane(subject: Make) -> None:
    """The host waits a long time in each step, and a step without the wait is as long."""
    one = subject(*LONG, READ)
    waited = sum(span.end - span.start for span in one.timeline.host if span.bound == "wait")
    assert waited > 0.9 * one.timeline.step_seconds * one.timeline.steps
    after = play(without(one, READ), one.gpu, one.host)
    assert after.step_seconds == pytest.approx(one.timeline.step_seconds, rel=0.01)
    assert list(host_waits.find(one)) == []


def test_a_wait_that_is_not_hidden_is_reported_with_its_line(subject: Make) -> None:
    one = subject(*LONG, READ, Work(20e-3))
    (finding,) = host_waits.find(one)
    assert (finding.code, finding.file, finding.line) == ("FO101", "train.py", 4)
    after = play(without(one, READ), one.gpu, one.host)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(one.timeline.step_seconds - after.step_seconds)
    assert finding.saving.seconds_per_step == pytest.approx(20e-3, rel=0.1)


def test_a_removed_wait_that_only_moves_to_the_next_one(subject: Make) -> None:
    """Two reads in a row: neither alone saves anything; both together do, and are told together."""
    other = Wait(0, "read one value", 4)
    one = subject(*LONG, READ, other, Work(20e-3))
    assert one.saving(without(one, READ)) is None
    assert one.saving(without(one, other)) is None
    (finding,) = host_waits.find(one)
    assert finding.evidence["lines"] == ["train.py:4", "train.py:5"]
    assert "none alone" in finding.message


def test_a_read_and_a_copy_that_hide_each_other(subject: Make) -> None:
    """The next batch is copied right after the loss was read: either makes the host wait for the GPU."""
    copy = Transfer("to_gpu", 4096, pinned=False, blocking=True, place=2)
    one = subject(*LONG, READ, copy, Work(20e-3))
    (finding,) = host_waits.find(one)
    assert finding.evidence["lines"] == ["train.py:4", "train.py:3"]
    assert (finding.code, finding.line) == ("FO101", 4)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(20e-3, rel=0.1)
    assert list(copies.find(one)) == []


def test_of_lines_that_save_together_only_those_that_it_takes_are_told(subject: Make) -> None:
    """Two reads right after another, and one that finds the GPU idle anyway."""
    idle, other = Wait(0, "read one value", 5), Wait(0, "read one value", 4)
    one = subject(idle, *LONG, READ, other, Work(20e-3), Launch(0), Work(20e-3))
    (finding,) = host_waits.find(one)
    assert finding.evidence["lines"] == ["train.py:4", "train.py:5"]
    after = play(one.with_events(e for e in one.tape.events if e not in (READ, other)), one.gpu, one.host)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(one.timeline.step_seconds - after.step_seconds)


def test_blocking_copies_alone_are_no_reads(subject: Make) -> None:
    copy = Transfer("to_gpu", 100_000_000, pinned=False, blocking=True, place=2)
    assert list(host_waits.find(subject(copy, copy, *LONG))) == []


def test_pinning_that_gains_nothing(subject: Make) -> None:
    """The copy is small beside the kernels, and the host has nothing else to do anyway."""
    copy = Transfer("to_gpu", 200_000, pinned=False, blocking=True, place=2)
    assert list(copies.find(subject(copy, *LONG, *LONG))) == []


def test_pinning_where_the_copy_is_hidden_already(subject: Make) -> None:
    """A prefetcher copies on a stream of its own: the host waits for it, and the GPU has work meanwhile."""
    copy = Transfer("to_gpu", 40_000_000, pinned=False, blocking=True, stream=1, place=2)
    one = subject(*LONG, copy)
    copied = 40e6 / one.host.pageable_bytes_per_second
    assert copied < one.timeline.kernels_seconds
    assert one.timeline.host_seconds > copied
    assert list(copies.find(one)) == []


def test_a_copy_ahead_from_pinned_memory_is_as_good_as_it_gets(subject: Make) -> None:
    """Even where it is longer than the kernels, and is what the step consists of."""
    copy = Transfer("to_gpu", 1_000_000_000, pinned=True, blocking=False, stream=1, place=2)
    one = subject(copy, *LONG)
    assert one.timeline.bound_by["transfer"] > 0.3 * one.timeline.step_seconds
    assert list(copies.find(one)) == []


def test_a_large_pageable_copy_is_worth_a_word(subject: Make) -> None:
    copy = Transfer("to_gpu", 100_000_000, pinned=False, blocking=True, place=2)
    (finding,) = copies.find(subject(copy, *LONG))
    assert (finding.code, finding.line) == ("FO203", 3)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(100e6 / 6e9, rel=0.1)


def test_a_copy_that_only_the_host_waits_for_needs_no_stream_of_its_own(subject: Make) -> None:
    """The copy is short, and the host has work to do: the flag is enough."""
    copy = Transfer("to_gpu", 1_000_000, pinned=True, blocking=True, place=2)
    (finding,) = copies.find(subject(*LONG, copy, Work(20e-3)))
    assert finding.code == "FO205"
    assert finding.remedy is not None
    assert finding.remedy.speedup == "pinned-copies"


def test_a_long_copy_is_made_ahead(subject: Make) -> None:
    copy = Transfer("to_gpu", 100_000_000, pinned=True, blocking=True, place=2)
    (finding,) = copies.find(subject(copy, *LONG))
    assert finding.remedy is not None
    assert finding.remedy.speedup == "copy-ahead"


def test_workers_on_data_in_memory_would_lose(subject: Make) -> None:
    """A batch that is made in 0.2 ms takes longer to get from a worker."""
    loader = Loader(0.2e-3, workers=0)
    one = subject(Fetch(0, 1), Launch(1), Work(0.3e-3), loaders=(loader,))
    assert list(batches.find(one)) == []


def test_workers_that_may_as_well_lose_are_not_proposed(subject: Make) -> None:
    """A batch takes a little longer to make than to hand over, which is known less well than that."""
    one = subject(Fetch(0, 1), Launch(1), Work(0.3e-3), loaders=(Loader(1.2e-3, workers=0),))
    assert one.saved_seconds(with_workers(one.tape, 1)) > one.worth_seconds
    assert list(batches.find(one)) == []
    (finding,) = batches.find(subject(Fetch(0, 1), Launch(1), Work(0.3e-3), loaders=(Loader(3e-3, workers=0),)))
    assert finding.code == "FO304"


def test_workers_where_the_gpu_hides_the_loading_gain_nothing(subject: Make) -> None:
    """Without workers a batch is made while the GPU still works on the last one."""
    one = subject(Fetch(0, 1), *LONG, loaders=(Loader(5e-3, workers=0),))
    assert list(batches.find(one)) == []


def test_workers_on_data_in_memory_lose_what_taking_their_batches_over_takes(subject: Make) -> None:
    """The other way round: a step with workers is longer by the replay, so nothing is proposed for either."""
    short = [Launch(1), Work(0.3e-3)]
    without, with_them = (subject(Fetch(0, 1), *short, loaders=(Loader(0.2e-3, workers),)) for workers in (0, 4))
    lost = with_them.timeline.step_seconds - without.timeline.step_seconds
    assert lost == pytest.approx(with_them.host.handover_seconds - 0.2e-3, rel=0.05)
    assert list(batches.find(with_them)) == []


def test_more_workers_than_keep_up_gain_nothing(subject: Make) -> None:
    one = subject(Fetch(0, 1), *LONG, loaders=(Loader(20e-3, workers=2),))
    assert one.timeline.bound_by["data"] < 0.01 * one.timeline.step_seconds
    assert list(batches.find(one)) == []


def test_more_workers_than_cores_gain_nothing(subject: Make) -> None:
    """Three beside the training process are all that four cores have room for."""
    one = subject(Fetch(0, 1), *LONG, loaders=(Loader(500e-3, workers=3),))
    assert one.timeline.bound_by["data"] > 0.5 * one.timeline.step_seconds
    assert list(batches.find(one)) == []


def test_a_slow_loader_gets_as_many_workers_as_it_needs(subject: Make) -> None:
    one = subject(Fetch(0, 1), *LONG, loaders=(Loader(60e-3, workers=0),))
    (finding,) = batches.find(one)
    assert (finding.code, finding.line) == ("FO304", 2)
    assert finding.evidence["workers_proposed"] in (2, 3)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(60e-3 - one.timeline.kernels_seconds, rel=0.15)


def test_a_healthy_step_has_no_findings(subject: Make) -> None:
    from flatout.explain import findings

    one = subject(
        Fetch(0, 1),
        Transfer("to_gpu", 10_000_000, pinned=True, blocking=False, stream=1, place=1),
        *[Launch(2)] * 9,
        Enter("backward"),
        *[Launch(2)] * 9,
        loaders=(Loader(5e-3, workers=2),),
    )
    assert findings(one.tape, one.gpu, one.host) == []
