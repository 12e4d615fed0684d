"""Trying values of an argument: which are run, and what is said of them."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.launch import Target
from flatout.virtual.prediction import PredictedError, Result, Time
from flatout.virtual.varying import Vary, doubled, summary, try_values, with_value

RESULT = Result("gpu", "GPU", "fits", None, None, 0, used_gpu=True, steps=3, operations=9)


def timed(seconds: float, samples_per_second: float | None = None) -> Time:
    return Time(seconds, seconds, seconds, 0.0, 0.0, 0.0, {}, 0.0, samples_per_second=samples_per_second)


def fits_up_to(limit: int) -> object:
    def attempt(value: int) -> Result:
        return msgspec.structs.replace(RESULT, outcome="fits" if value <= limit else "out_of_memory")

    return attempt


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_doubling_goes_from_the_first_to_the_last(low: int, more: int) -> None:
    values = doubled(low, low + more)
    assert (values[0], values[-1]) == (low, low + more)
    assert all(a < b <= 2 * a for a, b in itertools.pairwise(values))


@given(st.integers(1, 8), st.integers(0, 600))
def test_the_largest_that_fits_is_found_to_an_eighth_of_the_gap(low: int, limit: int) -> None:
    vary = Vary("--batch-size", doubled(low, 512), doubling=True)
    trials = try_values(vary, fits_up_to(limit))  # type: ignore[arg-type]
    assert len(trials) <= len(vary.values) + 3
    assert [trial.value for trial in trials] == sorted({trial.value for trial in trials})
    found = summary(vary, trials).largest
    if limit < low:
        assert found is None
    else:
        assert found is not None
        assert found <= limit
        first_too_large = next((value for value in vary.values if value > limit), None)
        last_fitting = max(value for value in vary.values if value <= limit)
        if first_too_large is not None:
            assert limit - found <= max(low, (first_too_large - last_fitting) / 8 + low)


def test_a_list_is_tried_to_its_end() -> None:
    vary = Vary("--width", (64, 32, 128), doubling=False)
    assert [trial.value for trial in try_values(vary, fits_up_to(40))] == [64, 32, 128]  # type: ignore[arg-type]


def test_a_script_that_refuses_the_argument_is_asked_once() -> None:
    asked = []

    def refuse(value: int) -> Result:
        asked.append(value)
        error = PredictedError("SystemExit", "unrecognized arguments", cause="script")
        return msgspec.structs.replace(RESULT, outcome="error", error=error, steps=0, exit_code=2)

    assert len(try_values(Vary("--batch", (8, 16, 32), doubling=True), refuse)) == 1
    assert asked == [8]


@pytest.mark.parametrize("known", [True, False])
def test_the_fastest_by_samples_or_by_the_value_itself(known: bool) -> None:
    seconds = {8: 1.0, 16: 1.5, 32: 4.0}

    def attempt(value: int) -> Result:
        rate = 100 - value if known else None
        return msgspec.structs.replace(RESULT, time=timed(seconds[value], rate))

    vary = Vary("--batch-size", (8, 16, 32), doubling=True)
    found = summary(vary, try_values(vary, attempt))
    assert found.largest == 32
    assert found.fastest == (8 if known else 16)


def test_the_argument_stands_behind_the_scripts_own() -> None:
    target = with_value(Target(path="train.py", arguments=("--lr", "1")), Vary("--batch-size", (8,), True), 8)
    assert target.arguments == ("--lr", "1", "--batch-size", "8")
