"""Two lanes: what overlaps, what waits, what the queue holds back. Times are those of the constants given here."""

from __future__ import annotations

import pytest

from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.tape import WHOLE_GPU, Event, Follow, Launch, Record, Tape, Transfer, Wait, Work
from flatout.timeline import Host, Prices, play
from flatout.timeline.bus import bus_bytes_per_second
from flatout.timeline.player import Player

GPU = find("a100")
HOST = Host(forward_seconds=10e-6, kernel_seconds=3e-6, wait_seconds=5e-6, pageable_bytes_per_second=5e9)
PRODUCT = Operation("aten::mm", (tensor((4096, 4096)), tensor((4096, 4096))), outputs=(tensor((4096, 4096)),))
SMALL = Operation("aten::relu", (tensor((16,)),), outputs=(tensor((16,)),))
VIEW = Operation("aten::view", (tensor((16,)),), outputs=(tensor((16,)),))
LONG = Player(Tape((), operations=(PRODUCT,)), HOST, Prices(GPU)).prices[0].seconds


def tape(*events: Event) -> Tape:
    return Tape(events, operations=(PRODUCT, SMALL, VIEW))


def test_a_slow_gpu_hides_the_host() -> None:
    timeline = play(tape(Launch(0), Launch(0)), GPU, HOST)
    assert timeline.step_seconds == pytest.approx(2 * LONG)
    assert timeline.host_seconds == pytest.approx(20e-6)


def test_a_slow_host_hides_the_gpu() -> None:
    timeline = play(tape(*[Launch(1)] * 50), GPU, HOST)
    assert timeline.step_seconds == pytest.approx(50 * 10e-6, rel=0.02)
    assert timeline.bound_by["launch"] > 0.8 * timeline.step_seconds


def test_views_launch_nothing() -> None:
    player = Player(tape(Launch(2)), HOST, Prices(GPU))
    player.play()
    assert not player.gpu_spans
    assert 0 < player.now < 10e-6


def test_a_wait_joins_the_lanes_and_what_follows_finds_the_gpu_idle() -> None:
    plain = play(tape(Launch(0), Work(1e-3)), GPU, HOST)
    waiting = play(tape(Launch(0), Wait(0, "read one value"), Work(1e-3)), GPU, HOST)
    assert plain.step_seconds == pytest.approx(max(LONG, 1e-3 + 10e-6), rel=0.01)
    assert waiting.step_seconds == pytest.approx(LONG + 1e-3 + 15e-6, rel=0.01)


def test_a_wait_at_the_end_of_a_long_queue_costs_next_to_nothing() -> None:
    plain = play(tape(*[Launch(0)] * 20), GPU, HOST)
    waiting = play(tape(*[Launch(0)] * 20, Wait(0, "read one value")), GPU, HOST)
    assert waiting.step_seconds - plain.step_seconds < 30e-6


def test_a_second_wait_in_a_row_costs_only_its_call() -> None:
    one = play(tape(Launch(0), Wait(0, "a")), GPU, HOST)
    two = play(tape(Launch(0), Wait(0, "a"), Wait(WHOLE_GPU, "b")), GPU, HOST)
    assert two.step_seconds - one.step_seconds == pytest.approx(5e-6, rel=0.01)


def test_the_queue_holds_only_so_many_launches() -> None:
    player = Player(tape(*[Launch(0)] * 10), Host(queue_launches=4), Prices(GPU))
    player.play()
    assert player.now == pytest.approx(5 * LONG, rel=0.05)  # the tenth waits until the sixth has begun


@pytest.mark.parametrize(("pinned", "blocking"), [(True, True), (False, True), (False, False)])
def test_copies_that_hold_the_host_up(pinned: bool, blocking: bool) -> None:
    player = Player(tape(Launch(0), Transfer("to_gpu", 10**8, pinned, blocking)), HOST, Prices(GPU))
    player.play()
    rate = bus_bytes_per_second(GPU) * HOST.pinned_ratio if pinned else 5e9
    assert player.now == pytest.approx(10e-6 + LONG + 1e8 / rate + 5e-6, rel=0.01)


def test_a_pinned_copy_on_a_side_stream_is_hidden_by_kernels() -> None:
    copy = Transfer("to_gpu", 10**7, pinned=True, blocking=False, stream=1)
    hidden = play(tape(*[Launch(0)] * 4, copy), GPU, HOST)
    assert hidden.step_seconds == pytest.approx(4 * LONG, rel=0.01)
    same_stream = play(tape(*[Launch(0)] * 4, Transfer("to_gpu", 10**7, pinned=True, blocking=False)), GPU, HOST)
    assert same_stream.step_seconds == pytest.approx(
        4 * LONG + 1e7 / (bus_bytes_per_second(GPU) * HOST.pinned_ratio), rel=0.01
    )


def test_a_stream_follows_an_event_of_another() -> None:
    player = Player(tape(Launch(0, 0), Record(7, 0), Follow(7, 1), Launch(0, 1)), HOST, Prices(GPU))
    player.play()
    first, second = player.gpu_spans
    assert second.start == pytest.approx(first.end)


@pytest.mark.parametrize(
    "events",
    [
        [Launch(0), Work(2e-3), Launch(1), Wait(0, "a")],
        [Transfer("to_gpu", 10**7, False, True), Launch(0), Launch(1)],
        [Launch(1)] * 30,
        [Launch(0, 1), Launch(0, 0), Wait(WHOLE_GPU, "a"), Work(1e-3)],
    ],
)
def test_what_a_step_goes_to_adds_up_to_the_step(events: list[Event]) -> None:
    timeline = play(tape(*events), GPU, HOST)
    assert sum(timeline.bound_by.values()) == pytest.approx(timeline.step_seconds, rel=1e-6)
    assert min(timeline.bound_by.values()) >= 0


def test_the_lower_bound_is_below_the_kernels() -> None:
    timeline = play(tape(Launch(0), Launch(1)), GPU, HOST)
    assert 0 < timeline.lower_bound_seconds < timeline.kernels_seconds <= timeline.step_seconds


def test_kernels_of_two_streams_take_turns() -> None:
    both = play(tape(Launch(0, 0), Launch(0, 1)), GPU, HOST)
    assert both.step_seconds == pytest.approx(2 * LONG, rel=0.01)


def test_copies_in_both_directions_take_place_at_once() -> None:
    there = Transfer("to_gpu", 10**8, pinned=True, blocking=False, stream=1)
    back = Transfer("to_host", 10**8, pinned=True, blocking=False, stream=2)
    one, both = play(tape(there), GPU, HOST), play(tape(there, back), GPU, HOST)
    assert both.step_seconds == pytest.approx(one.step_seconds, rel=0.01)


def test_what_was_measured_stands_and_issuing_is_as_fast_as_the_machine_of_the_tape() -> None:
    def seconds(issue_ratio: float, scale: float) -> float:
        events = (*[Launch(1)] * 100, Work(1e-3))
        played = Tape(events, operations=(PRODUCT, SMALL), issue_ratio=issue_ratio)
        return play(played, GPU, Host(forward_seconds=10e-6, scale=scale)).step_seconds

    assert seconds(1.0, 1.0) == pytest.approx(100 * 10e-6 + 1e-3, rel=0.01)
    assert seconds(3.0, 1.0) == pytest.approx(100 * 30e-6 + 1e-3, rel=0.01)
    assert seconds(3.0, 2.0) == pytest.approx(2 * (100 * 30e-6 + 1e-3), rel=0.01)


def test_measured_times_stand_in_place_of_what_an_operation_would_cost() -> None:
    took = Launch(0, host_seconds=20e-6, gpu_seconds=3e-3)
    timeline = play(tape(took, took, Wait(WHOLE_GPU, "read one value")), GPU, HOST)
    assert timeline.step_seconds == pytest.approx(6e-3, rel=0.02)
    assert timeline.kernels_seconds == pytest.approx(6e-3)
    assert timeline.bound_by["compute"] > 0.9 * timeline.step_seconds  # a product still goes to arithmetic
    slow_host = play(tape(*[Launch(1, host_seconds=1e-3, gpu_seconds=1e-5)] * 4), GPU, HOST)
    assert slow_host.step_seconds == pytest.approx(4e-3, rel=0.02)
    copied = Transfer("to_gpu", 10**7, pinned=True, blocking=False, host_seconds=1e-5, gpu_seconds=2e-3)
    assert play(tape(copied), GPU, HOST).step_seconds == pytest.approx(2e-3, rel=0.02)
