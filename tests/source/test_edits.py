"""Edits change what they name and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.source import Edit, apply_edits


@given(st.lists(st.tuples(st.text(), st.text(max_size=3), st.text(max_size=3))), st.text(), st.randoms())
def test_everything_outside_stays(parts: list[tuple[str, str, str]], tail: str, random: object) -> None:
    text, expected, edits = "", "", []
    for kept, old, new in parts:
        text += kept
        expected += kept
        if not kept and edits:  # would be at the same place as the one before
            continue
        edits.append(Edit(len(text), len(text) + len(old), new))
        text += old
        expected += new
    random.shuffle(edits)  # type: ignore[attr-defined]
    assert apply_edits(text + tail, edits) == expected + tail


def test_equal_edits_count_once() -> None:
    assert apply_edits("ab", [Edit(1, 1, "x"), Edit(1, 1, "x")]) == "axb"


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap at offset 1"):
        apply_edits("abc", [Edit(0, 2, ""), Edit(1, 3, "")])
