"""The time of a step as a prediction tells it."""

from __future__ import annotations

import pytest

from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.schema import Place
from flatout.recording.tape import Event, Fetch, Launch, Loader, Tape, Wait, Work
from flatout.timeline import Host
from flatout.virtual.timing import Timing, predicted_time

GPU = find("a100")
SIDE = tensor((4096, 4096), "bfloat16")
PRODUCT = Operation("aten::mm", (SIDE, SIDE), outputs=(SIDE,))
ODD = Operation("mine::kernel", (SIDE,), outputs=(SIDE,))


def tape(*events: Event, steps: int = 1) -> Tape:
    return Tape(
        events, steps, (PRODUCT, ODD), (0, None), (Place("train.py", 7),), (Loader(20e-3, workers=0, samples=32),)
    )


def test_without_a_tape_or_work_for_the_gpu_there_is_no_time() -> None:
    assert predicted_time(None, GPU) is None
    assert predicted_time(tape(Work(1.0)), GPU) is None


def test_figures_are_of_one_step() -> None:
    one = predicted_time(tape(*[Launch(0)] * 10), GPU)
    two = predicted_time(tape(*[Launch(0)] * 20, steps=2), GPU)
    assert one is not None
    assert two is not None
    for name in ("step_seconds", "kernels_seconds", "host_seconds", "lower_bound_seconds", "flops"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=0.01)
    assert one.flops == 10 * 2 * 4096**3
    assert one.lower_bound_seconds < one.low_seconds < one.step_seconds < one.high_seconds
    assert sum(one.bound_by.values()) == pytest.approx(one.step_seconds)


def test_utilization_is_of_the_datapath_that_does_the_products() -> None:
    time = predicted_time(tape(*[Launch(0)] * 10), GPU)
    assert time is not None
    assert GPU.rates.bf16 is not None
    assert time.flops_utilization_ratio == pytest.approx(time.flops / time.step_seconds / GPU.rates.bf16)
    assert 0.5 < time.flops_utilization_ratio < 1


def test_samples_come_from_the_loaders_and_workers_may_be_others() -> None:
    loaded = tape(Fetch(0), Launch(0), Wait(0, "read one value"))
    alone = predicted_time(loaded, GPU)
    helped = predicted_time(loaded, GPU, Timing(Host(), workers=4))
    assert alone is not None
    assert helped is not None
    assert alone.samples_per_second == pytest.approx(32 / alone.step_seconds)
    assert alone.bound_by["data"] == pytest.approx(20e-3, rel=0.05)
    assert helped.step_seconds < 0.5 * alone.step_seconds


def test_a_slower_host_makes_its_own_parts_longer() -> None:
    loaded = tape(Fetch(0), Launch(0), Wait(0, "read one value"))
    fast, slow = (predicted_time(loaded, GPU, Timing(Host(scale=scale))) for scale in (1, 3))
    assert fast is not None
    assert slow is not None
    assert slow.bound_by["data"] == pytest.approx(3 * fast.bound_by["data"], rel=0.02)
    assert slow.kernels_seconds == fast.kernels_seconds


def test_operators_without_a_formula_are_named_and_the_dearest_have_their_lines() -> None:
    time = predicted_time(tape(Launch(0), Launch(0), Launch(1)), GPU)
    assert time is not None
    assert list(time.unknown_operators) == ["mine::kernel"]
    dearest = {one.operator: one for one in time.dearest}
    assert (dearest["aten::mm"].calls, dearest["aten::mm"].line) == (2, 7)
    assert dearest["mine::kernel"].file is None
