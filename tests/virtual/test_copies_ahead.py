"""Scripts that copy batches: what is on their tapes, and how long their steps are, played on an A100."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
import torch

from flatout.gpu import find
from flatout.recording.tape import Tape, Transfer, Work
from flatout.timeline import Host, Timeline, play
from flatout.timeline.bus import bus_bytes_per_second
from flatout.virtual.clock import Clock
from flatout.virtual.machine import Machine

GPU = find("a100-40gb")
HOST = Host()
STEPS = 4
PRODUCTS = 6
SIDE_BYTES = 4096 * 4096 * 4


@pytest.fixture
def clock(machine: Machine) -> Iterator[Clock]:
    machine.phase = "forward"
    machine.step = 0
    machine.clock = Clock(machine)
    yield machine.clock
    machine.clock.stop()
    machine.clock = None


def compute(x: torch.Tensor, products: int) -> None:
    torch.relu(x)
    for _ in range(products):
        x @ x


def batches(pinned: bool) -> Iterator[torch.Tensor]:
    while True:
        yield torch.zeros(4096, 4096, pin_memory=pinned)


def naive(step: Callable[[], bool], pinned: bool, non_blocking: bool, products: int) -> None:
    for batch in batches(pinned):
        compute(batch.to("cuda", non_blocking=non_blocking), products)
        if step():
            return


def prefetching(step: Callable[[], bool], pinned: bool, non_blocking: bool, products: int) -> None:
    """The common class of many repositories: the next batch is copied on a side stream."""
    side = torch.cuda.Stream()
    source = batches(pinned)

    def preload() -> torch.Tensor:
        with torch.cuda.stream(side):
            return next(source).to("cuda", non_blocking=non_blocking)

    ahead = preload()
    while True:
        torch.cuda.current_stream().wait_stream(side)
        now = ahead
        now.record_stream(torch.cuda.current_stream())
        ahead = preload()
        compute(now, products)
        if step():
            return


def with_events(step: Callable[[], bool], pinned: bool, non_blocking: bool, products: int) -> None:
    """The same with an event a batch, which the step after waits for."""
    side = torch.cuda.Stream()
    ahead: list[tuple[torch.Tensor, torch.cuda.Event]] = []
    for batch in batches(pinned):
        with torch.cuda.stream(side):
            copied = batch.to("cuda", non_blocking=non_blocking)
            ahead.append((copied, side.record_event()))
        if len(ahead) > 1:
            now, done = ahead.pop(0)
            done.wait()
            compute(now, products)
        if step():
            return


Script = Callable[[Callable[[], bool], bool, bool, int], None]


def timed(
    machine: Machine, script: Script, *, pinned: bool, non_blocking: bool, products: int = PRODUCTS
) -> tuple[Tape, Timeline]:
    """The tape without the script's own work, which hangs on how busy this machine is, and its step."""
    before, machine.clock = machine.clock, Clock(machine)
    machine.step = 0

    def step() -> bool:
        machine.step += 1
        machine.clock.step_completed()
        return machine.step == STEPS

    try:
        script(step, pinned, non_blocking, products)
        tape = machine.clock.tape()
    finally:
        machine.clock.stop()
        machine.clock = before
    assert tape is not None
    tape = msgspec.structs.replace(tape, events=tuple(e for e in tape.events if not isinstance(e, Work)))
    return tape, play(tape, GPU, HOST)


def copy_seconds() -> float:
    return SIDE_BYTES / (bus_bytes_per_second(GPU) * HOST.pinned_ratio)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("script", [prefetching, with_events])
def test_copying_ahead_shortens_a_step_by_just_the_copy(machine: Machine, script: Script) -> None:
    tape, ahead = timed(machine, script, pinned=True, non_blocking=True)
    _, plain = timed(machine, naive, pinned=True, non_blocking=True)
    assert plain.kernels_seconds > 2 * copy_seconds()
    assert plain.step_seconds - ahead.step_seconds == pytest.approx(copy_seconds(), rel=0.02)
    streams = {event.stream for event in tape.events if isinstance(event, Transfer)}
    assert len(streams) == 1
    assert streams != {0}


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("script", [prefetching, with_events])
def test_copies_that_take_longer_than_the_rest_are_the_step(machine: Machine, script: Script) -> None:
    _, ahead = timed(machine, script, pinned=True, non_blocking=True, products=0)
    assert ahead.kernels_seconds < copy_seconds()
    assert ahead.step_seconds == pytest.approx(copy_seconds(), rel=0.02)


@pytest.mark.usefixtures("clock")
def test_on_one_stream_a_copy_waits_its_turn(machine: Machine) -> None:
    _, plain = timed(machine, naive, pinned=True, non_blocking=True)
    assert plain.step_seconds == pytest.approx(plain.kernels_seconds + copy_seconds(), rel=0.01)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("non_blocking", [True, False])
def test_pageable_copies_hold_the_host_up_whatever_they_ask_for(machine: Machine, non_blocking: bool) -> None:
    tape, plain = timed(machine, naive, pinned=False, non_blocking=non_blocking)
    copying = SIDE_BYTES / HOST.pageable_bytes_per_second
    assert plain.step_seconds == pytest.approx(plain.kernels_seconds + copying, rel=0.01)
    copies = [event for event in tape.events if isinstance(event, Transfer)]
    assert {(copy.pinned, copy.size_bytes) for copy in copies} == {(False, SIDE_BYTES)}


@pytest.mark.usefixtures("clock")
def test_a_prefetcher_from_pageable_memory_holds_the_host_up_and_not_the_other_stream(machine: Machine) -> None:
    """The host copies by itself; what it issued before goes on. The time is the host's, and so hidden by long steps."""
    copying = SIDE_BYTES / HOST.pageable_bytes_per_second
    _, long = timed(machine, prefetching, pinned=False, non_blocking=True)
    assert long.step_seconds == pytest.approx(long.kernels_seconds, rel=0.01)
    assert long.host_seconds >= copying
    _, short = timed(machine, prefetching, pinned=False, non_blocking=True, products=0)
    assert short.step_seconds == pytest.approx(copying, rel=0.02)
