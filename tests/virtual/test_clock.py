"""The tape of a dry run: what is on it, in what order, from which line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from flatout.recording.tape import WHOLE_GPU, Enter, Event, Follow, Launch, Record, Tape, Transfer, Wait, Work
from flatout.virtual.clock import WORK_SECONDS, Clock
from flatout.virtual.machine import Machine


@pytest.fixture
def clock(machine: Machine) -> Iterator[Clock]:
    machine.phase = "forward"
    machine.step = 0
    machine.clock = Clock(machine)
    yield machine.clock
    machine.clock.stop()
    machine.clock = None


def step(machine: Machine) -> None:
    machine.step += 1
    machine.clock.step_completed()


def tape_of(machine: Machine) -> Tape:
    step(machine)
    tape = machine.clock.tape()
    assert isinstance(tape, Tape)
    return tape


def told(tape: Tape) -> list[Event]:
    """Everything but phases and the host's work, which hangs on how busy the machine is."""
    return [event for event in tape.events if not isinstance(event, (Enter, Work))]


def names(tape: Tape) -> list[str]:
    return [tape.operations[event.operation].name for event in tape.events if isinstance(event, Launch)]


def test_operations_in_order_with_their_lines(clock: Clock, machine: Machine) -> None:
    x = torch.ones(4, 4, device="cuda")
    torch.relu(x @ x)
    tape = tape_of(machine)
    assert names(tape)[-2:] == ["aten::mm", "aten::relu"]
    line = tape.lines[-1]
    assert line is not None
    assert tape.places[line].file == __file__


def test_the_setup_is_not_on_it(clock: Clock, machine: Machine) -> None:
    machine.phase = "setup"
    torch.ones(1, device="cuda").item()
    torch.ones(4).cuda()
    assert told(tape_of(machine)) == []


def test_the_first_step_goes_when_there_is_a_second(clock: Clock, machine: Machine) -> None:
    x = torch.ones(4, device="cuda")
    torch.exp(x)
    step(machine)
    torch.relu(x)
    step(machine)
    torch.tanh(x)
    tape = tape_of(machine)
    assert (tape.steps, tape.first_step) == (2, 1)
    assert names(tape) == ["aten::relu", "aten::tanh"]


@pytest.mark.parametrize("non_blocking", [True, False])
@pytest.mark.parametrize("pinned", [True, False])
def test_copies_to_the_gpu(clock: Clock, machine: Machine, pinned: bool, non_blocking: bool) -> None:
    source = torch.zeros(1000, pin_memory=pinned)
    source.to("cuda", non_blocking=non_blocking)
    (copy,) = [event for event in told(tape_of(machine)) if isinstance(event, Transfer)]
    assert (copy.direction, copy.size_bytes, copy.pinned, copy.blocking) == ("to_gpu", 4000, pinned, not non_blocking)


def test_a_value_that_is_read_is_one_blocking_copy_and_no_wait_besides(clock: Clock, machine: Machine) -> None:
    x = torch.ones((), device="cuda")
    x.item()
    tape = tape_of(machine)
    copies = [event for event in told(tape) if isinstance(event, Transfer)]
    assert [(copy.direction, copy.size_bytes, copy.blocking) for copy in copies] == [("to_host", 4, True)]
    assert not any(isinstance(event, Wait) for event in tape.events)
    assert copies[0].place is not None
    assert tape.places[copies[0].place].file == __file__


def test_a_size_that_hangs_on_values_is_waited_for_after_its_operation(clock: Clock, machine: Machine) -> None:
    x = torch.ones(8, device="cuda")
    torch.nonzero(x)
    events = told(tape_of(machine))
    assert isinstance(events[-1], Wait)
    assert "nonzero" in events[-1].reason
    assert isinstance(events[-2], Launch)


def test_synchronize_waits_for_the_whole_gpu_and_a_stream_for_itself(clock: Clock, machine: Machine) -> None:
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    side.synchronize()
    waits = [event for event in told(tape_of(machine)) if isinstance(event, Wait)]
    assert [wait.stream for wait in waits] == [WHOLE_GPU, side.stream_id]


def test_events_and_streams(clock: Clock, machine: Machine) -> None:
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    x = torch.ones(8, device="cuda")
    with torch.cuda.stream(side):
        torch.exp(x)
        event.record()
    torch.cuda.current_stream().wait_event(event)
    side.wait_stream(torch.cuda.current_stream())
    event.synchronize()
    events = [e for e in told(tape_of(machine)) if isinstance(e, (Record, Follow, Wait))]
    assert events[:2] == [Record(1, side.stream_id), Follow(1, 0)]
    assert events[2:4] == [Record(2, 0), Follow(2, side.stream_id)]
    assert isinstance(events[4], Wait)
    assert events[4].event == 1


def test_work_of_the_host_is_on_it_where_it_takes_long(clock: Clock, machine: Machine) -> None:
    x = torch.ones(8, device="cuda")
    torch.exp(x)
    end = time.thread_time() + 3 * WORK_SECONDS
    while time.thread_time() < end:
        pass
    torch.exp(x)
    work = [event for event in tape_of(machine).events if isinstance(event, Work)]
    assert any(3 * WORK_SECONDS <= event.seconds < 6 * WORK_SECONDS for event in work)


def test_a_tape_goes_through_a_file(clock: Clock, machine: Machine) -> None:
    import msgspec

    x = torch.ones(8, device="cuda")
    x.masked_fill(x > 0, float("-inf")).sum().item()
    torch.randint(0, 2**63 - 1, (3,), device="cuda")
    tape = tape_of(machine)
    again = msgspec.json.decode(msgspec.json.encode(tape), type=Tape)
    assert again.events == tape.events
    assert [operation.name for operation in again.operations] == [operation.name for operation in tape.operations]
