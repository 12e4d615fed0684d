from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flatout.report.comparison import filled_cells


@given(st.floats(0, 5), st.integers(2, 60), st.booleans())
def test_a_bar_is_as_long_as_its_share_and_shows_both_ends(ratio: float, width: int, ascii_only: bool) -> None:
    cells = filled_cells(ratio, width, ascii_only=ascii_only)
    full = cells.count("#" if ascii_only else "█")
    assert abs(len(cells) - min(ratio, 1) * width) <= 1
    assert (cells == "") == (ratio == 0)
    assert (full == width) == (ratio >= 1)


def test_an_eighth_of_a_cell() -> None:
    assert filled_cells(0.0001, 20, ascii_only=False) == "▏"
    assert filled_cells(0.475, 20, ascii_only=False) == "█████████▌"
    assert filled_cells(0.9999, 4, ascii_only=False) == "███▉"
    assert filled_cells(1.0, 4, ascii_only=False) == filled_cells(9.0, 4, ascii_only=False) == "████"
    assert filled_cells(0.0001, 20, ascii_only=True) == "#"
    assert filled_cells(0.9999, 4, ascii_only=True) == "###"
