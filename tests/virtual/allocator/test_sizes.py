from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.virtual.allocator.sizes import MIB, round_size, round_to_divisions, segment_size

OFF = (0,) * 16


@pytest.mark.parametrize(
    ("requested", "block"), [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)]
)
def test_blocks_are_multiples_of_512(requested: int, block: int) -> None:
    assert round_size(requested, OFF) == block


@pytest.mark.parametrize(("requested", "rounded"), [(1200, 1280), (1024, 1024), (1025, 1280), (1793, 2048)])
def test_four_divisions_between_1024_and_2048(requested: int, rounded: int) -> None:
    assert round_to_divisions(requested, 4) == rounded


def test_divisions_count_only_above_512_bytes_each() -> None:
    assert round_size(2000, (4,) * 16) == 2048
    assert round_size(2049, (4,) * 16) == 2560
    assert round_size(3000, (8,) * 16) == 3072


def test_each_power_of_two_has_its_own_divisions() -> None:
    divisions = (1, 2, *(4,) * 14)
    assert round_size(MIB + 1, divisions) == MIB + 512
    assert round_size(2 * MIB + 1, divisions) == 3 * MIB
    assert round_size(4 * MIB + 1, divisions) == 5 * MIB
    assert round_size((1 << 40) + 1, divisions) == 5 << 38, "sizes above the table take its last entry"


@given(st.integers(1, 1 << 40), st.sampled_from([0, 1, 2, 4, 8, 64]))
def test_rounding_never_shrinks_and_keeps_alignment(size: int, divisions: int) -> None:
    rounded = round_size(size, (divisions,) * 16)
    assert rounded >= size
    assert rounded % 512 == 0
    assert round_size(rounded, (divisions,) * 16) == rounded
    assert rounded <= max(2 * size, 512)


@pytest.mark.parametrize(
    ("block", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
    ],
)
def test_segment_sizes(block: int, segment: int) -> None:
    assert segment_size(block) == segment


def test_large_segment_size_is_a_setting() -> None:
    assert segment_size(2 * MIB, 64 * MIB) == 64 * MIB
    assert segment_size(12 * MIB, 64 * MIB) == 12 * MIB
