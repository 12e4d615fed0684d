"""What is written is what is read."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import RecordingError, UsageError
from flatout.recording import Recording, Writer, open_recording, write_ending
from flatout.recording.layout import ACTIONS, PHASES
from flatout.recording.schema import (
    CATEGORIES,
    Assumption,
    Device,
    Ending,
    Failure,
    Holder,
    MemoryEvent,
    Peak,
    Place,
    Run,
    Step,
    Wait,
)
from flatout.recording.timed import TimedStep

RUN = Run("virtual", "train.py", ("--lr", "0.1"), "2.13.0", 1.5, Device("NVIDIA A100", 80, 79, 1))
HERE = Place("train.py", 42, "main")
THERE = Place("model.py", 7)
COMPLETED = Ending("completed", 0)


def test_everything_comes_back(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    writer.memory_event("segment_alloc", 0x7F0000000000, 2 << 20, 2 << 20, 0, "other", "setup", 0, None)
    writer.memory_event("alloc", 0x7F0000000000, 512, 400, 0, "parameters", "forward", 1, HERE)
    step = Step(0, 12, writer.next_sequence, 512, THERE)
    writer.step(step)
    timed = [
        TimedStep(0, 0.0, 1.5, "warm_up", {"forward": 1.0, "other": 0.5}),
        TimedStep(1, 1.5, 0.5, "steady", {"data": 0.5}, {"forward": 0.25}),
    ]
    for one in timed:
        writer.timed_step(one)
    peak = Peak(512, 2 << 20, 3 << 20, 1, "backward", HERE, {"parameters": 512}, (Holder(HERE, "parameters", 512, 1),))
    writer.peak(Peak(1, 1, 1, 0, "setup", None, {}))
    writer.peak(peak)
    writer.wait(HERE, "item")
    writer.wait(HERE, "item", steered=True)
    writer.wait(None, "synchronize", invented=True)
    writer.assume("masks keep half", THERE)
    writer.assume("masks keep half", THERE)
    writer.assume("the loss is 1.0")
    writer.fact("workers", {"count": 4})
    writer.doing("step 1, backward")
    ending = Ending("error", 1, Failure("RuntimeError", "shapes", HERE), "step 1")
    writer.close(ending)

    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.run == RUN
        assert recording.ending == ending
        assert recording.timed_steps() == timed
        assert recording.steps() == [step]
        assert step.last_sequence == 2
        assert list(recording.memory_events()) == [
            MemoryEvent(0, "segment_alloc", 0x7F0000000000, 2 << 20, 2 << 20, 0, "other", "setup", 0, None),
            MemoryEvent(1, "alloc", 0x7F0000000000, 512, 400, 0, "parameters", "forward", 1, HERE),
        ]
        assert recording.peak() == peak
        assert recording.waits() == [
            Wait(HERE, "item", 2, False, True),
            Wait(None, "synchronize", 1, True, False),
        ]
        assert recording.assumptions() == [
            Assumption("masks keep half", THERE, 2),
            Assumption("the loss is 1.0", None, 1),
        ]
        assert recording.facts() == {"workers": {"count": 4}}
        assert recording.doing == "step 1, backward"


_events = st.tuples(
    st.sampled_from(ACTIONS),
    st.integers(0, 2**62),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(0, 100),
    st.sampled_from(CATEGORIES),
    st.sampled_from(PHASES),
    st.integers(0, 1000),
    st.none() | st.builds(Place, st.text(), st.integers(0, 10**6), st.text()),
)


@given(events=st.lists(_events, max_size=20))
def test_any_events_come_back(events: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("events") / "run.flatout"
    writer = Writer(path, RUN)
    for rank, event in enumerate(events):
        writer.memory_event(*event)
        if rank % 7 == 3:
            writer.flush()
    writer.close(COMPLETED)
    with open_recording(path) as recording:
        assert list(recording.memory_events()) == [MemoryEvent(i, *event) for i, event in enumerate(events)]


def test_aggregates_grow_over_commits(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    for steered in (False, True, False):
        writer.wait(HERE, "item", steered=steered)
        writer.assume("a", HERE)
        writer.step(Step(0, 1, 0, 0))
        writer.flush()
    writer.close(COMPLETED)
    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.waits() == [Wait(HERE, "item", 3, False, True)]
        assert recording.assumptions() == [Assumption("a", HERE, 3)]
        assert len(recording.steps()) == 1


def test_a_live_run_can_be_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.ending is None
        assert recording.peak() is None
        assert recording.doing == ""
        writer.memory_event("alloc", 0, 512, 1, 0, "other", "other", 0, HERE)
        writer.doing("waiting for data")
        deadline = time.monotonic() + 10
        while not recording.doing and time.monotonic() < deadline:
            time.sleep(0.05)
        assert recording.doing == "waiting for data"
        assert [event.place for event in recording.memory_events()] == [HERE]
    writer.close(COMPLETED)


def test_many_threads(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)

    def work(number: int) -> None:
        for i in range(2000):
            writer.memory_event("alloc", i, 512, number, 0, "other", "other", 0, HERE)
            if i % 500 == 0:
                writer.flush()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close(COMPLETED)
    with open_recording(tmp_path / "run.flatout") as recording:
        events = list(recording.memory_events())
    assert [event.sequence for event in events] == list(range(8000))
    for number in range(4):
        assert [e.address for e in events if e.requested_bytes == number] == list(range(2000))


def test_the_first_ending_stands(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    writer.close(COMPLETED)
    writer.close(Ending("killed", 137))
    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.ending == COMPLETED


def test_a_supervisor_writes_the_ending(tmp_path: Path) -> None:
    Writer(tmp_path / "run.flatout", RUN).close(COMPLETED)
    write_ending(tmp_path / "run.flatout", Ending("killed", 137, doing="step 3"))
    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.ending == Ending("killed", 137, doing="step 3")


def test_replaces_recordings_and_nothing_else(tmp_path: Path) -> None:
    for _ in range(2):
        Writer(tmp_path / "run.flatout", RUN).close(COMPLETED)
    precious = tmp_path / "weights.pt"
    precious.write_bytes(b"x" * 1000)
    with pytest.raises(UsageError, match=r"weights\.pt: exists and is not a flatout recording"):
        Writer(precious, RUN)
    assert precious.read_bytes() == b"x" * 1000
    with pytest.raises(UsageError, match="cannot write a recording there"):
        Writer(tmp_path / "nowhere" / "run.flatout", RUN)


def test_facts_must_be_json(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    with pytest.raises(TypeError):
        writer.fact("model", object())
    writer.close(COMPLETED)
    with Recording(tmp_path / "run.flatout") as recording:
        assert recording.facts() == {}


def test_a_store_that_fails_spares_the_program(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    writer.memory_event("alloc", 2**70, 512, 1, 0, "other", "other", 0, HERE)  # SQLite's integers end at 2**63
    writer.flush()
    writer.memory_event("alloc", 1, 512, 1, 0, "other", "other", 0, HERE)
    with pytest.raises(RecordingError, match="incomplete"):
        writer.close(COMPLETED)
    with open_recording(tmp_path / "run.flatout") as recording:
        assert list(recording.memory_events()) == []


def test_noting_an_event_is_cheap(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.flatout", RUN)
    best_seconds = 1.0
    for _ in range(20):
        start = time.perf_counter()
        for i in range(500):
            writer.memory_event("alloc", i, 512, 500, 0, "activations", "forward", 1, HERE)
        best_seconds = min(best_seconds, time.perf_counter() - start)
    writer.close(COMPLETED)
    assert best_seconds / 500 < 2e-6


def test_text_that_is_no_utf_8_is_stored_readably(tmp_path: Path) -> None:
    path = tmp_path / "run.flatout"
    place = Place("bad\udcff.py", 1)
    writer = Writer(path, Run("virtual", "bad\udcff.py", ("\udcff",), "2.13.0", 0.0))
    writer.assume("of \udcff", place)
    writer.close(Ending("error", 1, Failure("ValueError", "bad \udcff", place)))
    with open_recording(path) as recording:
        assert recording.run.script == "bad\\udcff.py"
        assert recording.ending == Ending("error", 1, Failure("ValueError", "bad \\udcff", Place("bad\\udcff.py", 1)))
        assert [one.text for one in recording.assumptions()] == ["of \\udcff"]
