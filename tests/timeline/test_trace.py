"""A timeline as a trace that viewers open."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.schema import Place
from flatout.recording.tape import Compiled, Enter, Event, Fetch, Launch, Loader, Replay, Tape, Transfer, Wait, Work
from flatout.timeline import Host, play
from flatout.timeline.trace import trace_events

SMALL = Operation("aten::relu", (tensor((1 << 20,)),), outputs=(tensor((1 << 20,)),))
TAPE = Tape(
    (
        Fetch(0, 0),
        Transfer("to_gpu", 1 << 20, pinned=True, blocking=False, stream=7, place=1),
        Launch(0),
        Enter("backward"),
        Launch(0),
        Wait(0, "read one value", 1),
    ),
    operations=(SMALL,),
    lines=(1,),
    places=(Place("train.py", 3), Place("train.py", 4)),
    loaders=(Loader(1e-3),),
)


def trace(tape: Tape = TAPE, host: Host | None = None) -> list[dict[str, Any]]:
    timeline = play(tape, find("t4"), host or Host())
    content = json.loads(json.dumps(trace_events(tape, timeline)))
    events: list[dict[str, Any]] = content["traceEvents"]
    return events


def test_every_event_has_what_viewers_ask_for() -> None:
    for event in trace():
        assert {"ph", "pid", "tid", "name"} <= event.keys()
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] > 0


def test_spans_of_one_lane_do_not_overlap() -> None:
    lanes: dict[Any, float] = {}
    for event in trace():
        if event["ph"] == "X":
            lane = event["pid"], event["tid"]
            assert event["ts"] >= lanes.get(lane, 0.0) - 1e-3
            lanes[lane] = event["ts"] + event["dur"]
    assert set(lanes) == {(1, 0), (2, 0), (2, 7)}


def test_names_lines_phases_and_arrows() -> None:
    events = trace()
    kinds = Counter(event["ph"] for event in events)
    assert kinds["s"] == kinds["f"] == 3
    kernels = [event for event in events if event["name"] == "aten::relu" and event["pid"] == 2]
    assert [event["args"]["phase"] for event in kernels] == ["forward", "backward"]
    assert kernels[0]["args"]["line"] == "train.py:4"
    assert kernels[0]["args"]["shapes"] == [[1 << 20]]
    assert {"next batch", "waits for the GPU"} <= {event["name"] for event in events}


def test_an_empty_tape_is_an_empty_trace() -> None:
    tape = Tape(())
    assert all(event["ph"] == "M" for event in trace_events(tape, play(tape, find("t4"), Host()))["traceEvents"])


def test_events_are_in_order_and_each_kernel_of_a_lane_ends_before_the_next() -> None:
    events = [event for event in trace() if event["ph"] != "M"]
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def test_arrows_go_forward_from_the_issue_to_its_kernel_however_long_the_host_waited() -> None:
    """A full queue and a copy from pageable memory make the host wait within an event."""
    copy = Transfer("to_gpu", 1 << 24, pinned=False, blocking=True)
    tape = Tape((copy, *[Launch(0)] * 9), operations=(SMALL,), loaders=(Loader(1e-3, 3),))
    events = trace(tape, Host(queue_launches=2))
    starts = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
    assert len(starts) == len(ends) == 30
    launched = {event["ts"] for event in events if event["ph"] == "X" and event["cat"] == "launch"}
    assert set(starts.values()) <= launched
    assert all(starts[number] <= ends[number] for number in starts)


def test_what_a_compiler_or_a_graph_launches_has_its_names() -> None:
    events: tuple[Event, ...] = (Compiled((0,), begins=True), Replay((0, 0)), Work(1e-3))
    names = {event["name"] for event in trace(Tape(events, operations=(SMALL,), lines=(None,)))}
    assert {"aten::relu", "CUDA graph of 2 operations", "the script's own work"} <= names
