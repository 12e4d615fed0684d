from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.cli.values import assumptions, count, duration_seconds, factor, names, varied
from flatout.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("0.5h", 1800), (" 1 H 2s ", 3602), ("1d", 86400)],
)
def test_duration(text: str, seconds: float) -> None:
    assert duration_seconds(text, "--timeout") == seconds


@given(st.integers(1, 999_999_999))
def test_count(number: int) -> None:
    assert count(f" {number} ", "--steps") == number


@pytest.mark.parametrize("text", ["", "abc", "0", "-1", "1.5", "1e3", "\u0663", "9" * 5000])
def test_what_is_no_count_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"--steps .* is not a whole number from 1 on"):
        count(text, "--steps")


def test_no_duration_is_no_limit() -> None:
    assert duration_seconds("none", "--timeout") is None


@pytest.mark.parametrize("text", ["", "m", "10x", "10 minutes", "1h-3m", "-5", "nan", "inf", "1e3", "h10"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"--timeout .* is not a duration; write it like 90s"):
        duration_seconds(text, "--timeout")


def test_no_time_is_an_error() -> None:
    with pytest.raises(UsageError, match="leaves no time"):
        duration_seconds("0s", "--timeout")


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
def test_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert duration_seconds(f"{hours}h{minutes}m{seconds}s", "--timeout") == hours * 3600 + minutes * 60 + seconds


def test_names() -> None:
    assert names("h100, rtx 4090,h100", "--gpu") == ["h100", "rtx 4090"]
    for text in ("", "h100,", ",", "a,,b"):
        with pytest.raises(UsageError, match=r"--gpu .* empty name"):
            names(text, "--gpu")


def test_assumptions() -> None:
    found = assumptions(["loss=2.5", "done = false", "n=3", "n=4"], "--assume")
    assert found == {"loss": 2.5, "done": False, "n": 4}
    assert isinstance(found["n"], int)


@pytest.mark.parametrize("text", ["loss", "=3", "loss=", "loss=high", "loss=1,2"])
def test_what_is_no_assumption_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--assume"):
        assumptions([text], "--assume")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_can_be_assumed(value: float) -> None:
    assert assumptions([f"x={value!r}"], "--assume") == {"x": value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch-size=8..512", ("--batch-size", (8, 512), True)),
        ("--bs=4..4", ("--bs", (4, 4), True)),
        ("width = 64, 32,64", ("--width", (64, 32), False)),
    ],
)
def test_an_argument_and_its_values(text: str, expected: object) -> None:
    assert varied(text, "--vary") == expected


@pytest.mark.parametrize("text", ["batch-size", "=8..16", "b=16..8", "b=0..8", "b=8..many", "b=", "--=3", "b=1,,2"])
def test_an_argument_without_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--vary"):
        varied(text, "--vary")


@pytest.mark.parametrize("text", ["0", "-1", "nan", "fast", "1e3", ""])
def test_a_factor_is_a_number_above_0(text: str) -> None:
    with pytest.raises(UsageError, match="above 0"):
        factor(text, "--cpu-scale")
    assert factor(" 1.5 ", "--cpu-scale") == 1.5
