"""The expected total of a window whose total nobody knows: a power of two, so that it costs no digit."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st

from flatout.loop.windows.accumulate import Window, power_of_two


@given(st.one_of(st.integers(0, 10**9), st.floats(1e-6, 1e12), st.fractions(0, 1000)))
def test_it_is_a_power_of_two_near_the_number(value: float | Fraction) -> None:
    power = power_of_two(value)
    assert math.frexp(power)[0] == 0.5
    assert value == 0 or value <= power <= 2 * value


@given(st.integers(0, 2**24))
def test_a_tensor_gives_the_same_as_a_number(value: int) -> None:
    assert power_of_two(torch.tensor(value)).item() == power_of_two(value)


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=6).filter(any))
def test_scales_and_correction_are_exact(weights: list[int]) -> None:
    window = Window(len(weights))
    scales = [window.scale(weight, planned=False, alike=False) for weight in weights]
    correction = window.correction() or 1
    for scale, weight in zip(scales, weights):
        power = Fraction(weight) / Fraction(scale) if weight else Fraction(1)
        assert power.numerator == 1 or power.denominator == 1  # the scale has all the digits of the weight
        assert math.isclose(scale / correction, weight / sum(weights), rel_tol=1e-15)
        expected = Fraction(sum(weights)) / Fraction(correction)  # no digit is lost: the gradients are divided once
        assert expected.numerator == 1 or expected.denominator == 1


def test_a_first_batch_without_tokens_is_no_division_by_zero() -> None:
    window = Window(2)
    scales = [window.scale(0, planned=False, alike=False), window.scale(4, planned=False, alike=False)]
    correction = window.correction() or 1
    assert [scale / correction for scale in scales] == [0, 1]
