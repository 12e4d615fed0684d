from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flatout.report.memory_bar import cells_of


@given(st.lists(st.integers(0, 1 << 37), max_size=10), st.integers(0, 1 << 38), st.integers(1, 200))
def test_cells_fill_the_bar_in_proportion(sizes: list[int], free: int, width: int) -> None:
    total = sum(sizes) + free
    cells = cells_of(sizes, total, width)
    assert len(cells) == len(sizes)
    assert all(count >= 0 for count in cells)
    assert sum(cells) <= width
    assert any(cells) == any(sizes)
    if free == 0 and total > 0:
        assert sum(cells) >= width - len(sizes)


def test_what_is_half_a_cell_is_seen_and_what_is_less_is_not() -> None:
    assert cells_of([1, 99], 100, 50) == [1, 49]
    assert cells_of([1, 999], 1000, 50) == [0, 50]


def test_only_an_empty_gpu_has_an_empty_bar() -> None:
    assert cells_of([1, 4, 2], 100_000, 50) == [0, 1, 0]
    assert cells_of([0, 0], 100_000, 50) == [0, 0]


def test_an_empty_gpu_has_an_empty_bar() -> None:
    assert cells_of([0, 0], 0, 50) == [0, 0]
