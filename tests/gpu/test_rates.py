"""Rates from clock and multiprocessors give published rates back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.gpu.rates import Fp32Accumulate, from_clock
from flatout.gpu.specification import ComputeCapability


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "mhz", "accumulate", "dtype", "tflops"),
    [
        ((7, 0), 80, 1530, "full", "fp16", 125),
        ((7, 0), 80, 1380, "full", "fp64", 7.0),
        ((7, 5), 40, 1590, "full", "fp16", 65),
        ((7, 5), 68, 1545, "half", "fp16", 53.8),
        ((8, 0), 108, 1410, "full", "bf16", 312),
        ((8, 0), 108, 1410, "full", "tf32", 156),
        ((8, 0), 108, 1410, "full", "int8", 624),
        ((8, 0), 108, 1410, "full", "fp64_tensor", 19.5),
        ((8, 6), 72, 1695, "full", "bf16", 125),
        ((8, 6), 84, 1740, "full", "tf32", 74.8),
        ((8, 9), 58, 2040, "full", "fp16", 121),
        ((8, 9), 142, 2490, "half", "fp16", 181.05),
        ((8, 9), 128, 2520, "half", "fp8", 330.3),
        ((8, 9), 128, 2520, "half", "int8", 660.6),
        ((12, 0), 170, 2407, "half", "int8", 838),
        ((12, 0), 188, 2617, "full", "bf16", 503.8),
    ],
)
def test_published_rates(
    capability: ComputeCapability,
    multiprocessors: int,
    mhz: float,
    accumulate: Fp32Accumulate,
    dtype: str,
    tflops: float,
) -> None:
    rates = from_clock(capability, multiprocessors, mhz * 1e6, accumulate)
    assert getattr(rates, dtype) == pytest.approx(tflops * 1e12, rel=0.01)


@given(st.integers(1, 200), st.floats(1e8, 3e9))
def test_half_accumulation_halves_floats_and_nothing_else(multiprocessors: int, boost_hz: float) -> None:
    full = from_clock((8, 9), multiprocessors, boost_hz, "full")
    half = from_clock((8, 9), multiprocessors, boost_hz, "half")
    assert half.fp16 == pytest.approx((full.fp16 or 0) / 2)
    assert half.fp8 == pytest.approx((full.fp8 or 0) / 2)
    assert (half.int8, half.fp32, half.fp64) == (full.int8, full.fp32, full.fp64)


def test_a_capability_without_a_rule_is_refused() -> None:
    with pytest.raises(KeyError):
        from_clock((9, 0), 132, 1.8e9, "full")
