from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.report.units import count_text, duration_text, size_text

FACTORS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (2 << 20, "2.00 MiB"),
        (850 << 20, "850 MiB"),
        (1000 << 20, "1000 MiB"),
        ((1 << 30) - 1, "1.00 GiB"),
        (1_350_681_600, "1.26 GiB"),
        (33_715_493_273, "31.4 GiB"),
        (85_017_493_504, "79.2 GiB"),
        (141 << 30, "141 GiB"),
        (3 << 40, "3.00 TiB"),
        (-(8 << 30), "-8.00 GiB"),
    ],
)
def test_size_text(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@given(st.integers(1, 1 << 45))
def test_size_text_is_within_half_a_percent(size_bytes: int) -> None:
    number, unit = size_text(size_bytes).split()
    assert float(number) < 1024
    assert abs(float(number) * FACTORS[unit] - size_bytes) <= 0.005 * size_bytes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (1.234, "1.23 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (245, "4 min 05 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_duration_text(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_count_text() -> None:
    assert [count_text(1, "step"), count_text(1234, "step"), count_text(2, "batch", "batches")] == [
        "1 step",
        "1,234 steps",
        "2 batches",
    ]
