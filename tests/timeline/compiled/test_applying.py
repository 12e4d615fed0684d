"""A tape with regions becomes one that can be played, event for event in its place."""

from __future__ import annotations

import msgspec
import pytest
from compiled_region import Region

from flatout.gpu import find
from flatout.recording.operation import Operation, TensorType, tensor
from flatout.recording.tape import Absorbed, Call, Compiled, Launch, Replay, Tape, Wait
from flatout.timeline import Host, play
from flatout.timeline.compiled import compiled

GPU = find("a100")
SIDE = tensor((4096, 4096))
SMALL = tensor((64,))


def chain(length: int, side: TensorType = SIDE, *, graph: bool = False, fuses: bool = True) -> Tape:
    """A region of so many loops, one after another."""
    region = Region(graph=graph, fuses=fuses)
    x = region.tensor(side.shape)
    for _ in range(length):
        x = region.run("relu", x, out=side)
    return region.tape(x)


def test_a_tape_without_regions_is_left_as_it_is() -> None:
    tape = Tape((Launch(0),), operations=(Operation("aten::relu", (SIDE,), outputs=(SIDE,)),), lines=(None,))
    assert compiled(tape) is tape


def test_events_keep_their_places() -> None:
    tape = chain(3)
    tape = msgspec.structs.replace(tape, events=(*tape.events, Wait(0, "read one value")))
    new = compiled(tape)
    assert [type(event) for event in new.events] == [Absorbed, Absorbed, Compiled, Wait]
    assert len(new.lines) == len(new.operations)
    assert compiled(new) is new


def test_fusion_saves_what_memory_bound_loops_take() -> None:
    fused = play(chain(10), GPU, Host())
    one = play(chain(1), GPU, Host())
    assert fused.step_seconds == pytest.approx(one.step_seconds, rel=0.01)
    assert sum(fused.bound_by.values()) == pytest.approx(fused.step_seconds)
    assert 0 < fused.lower_bound_seconds < fused.step_seconds
    assert not fused.unknown


def test_a_call_costs_the_host_its_guards_and_each_kernel_a_launch() -> None:
    host = Host(call_seconds=50e-6, compiled_seconds=5e-6)
    assert play(chain(10, SMALL), GPU, host).step_seconds == pytest.approx(55e-6, rel=0.05)


def test_a_graph_is_one_launch() -> None:
    region = Region(graph=True)
    x, weight = region.tensor((64, 64)), region.tensor((64, 64))
    for _ in range(30):
        x = region.run("mm", x, weight, out=tensor((64, 64)))
    region.calls[0] = Call(0, graph=True, input_bytes=16384)
    tape = region.tape(x)
    new = compiled(tape)
    (replay,) = (event for event in new.events if not isinstance(event, Absorbed))
    assert isinstance(replay, Replay)
    assert len(replay.operations) == 31  # the inputs are copied to where the graph reads them
    region.calls[0] = Call(0, input_bytes=16384)
    plain = play(region.tape(x), GPU, Host())
    graph = play(tape, GPU, Host())
    assert graph.host_seconds == pytest.approx(Host().graph_seconds)
    assert graph.step_seconds < 0.8 * plain.step_seconds


def test_a_mere_graph_fuses_nothing() -> None:
    tape = chain(5, graph=True, fuses=False)
    (replay,) = (event for event in compiled(tape).events if isinstance(event, Replay))
    assert len(replay.operations) == 5


def test_a_captured_graph_is_replayed_from_the_tape() -> None:
    operation = Operation("aten::relu", (SMALL,), outputs=(SMALL,))
    graph = play(Tape((Replay((0,) * 40),), operations=(operation,), lines=(None,)), GPU, Host())
    eager = play(Tape((Launch(0),) * 40, operations=(operation,), lines=(None,)), GPU, Host())
    assert graph.step_seconds < eager.step_seconds / 4
    assert sum(graph.bound_by.values()) == pytest.approx(graph.step_seconds)
