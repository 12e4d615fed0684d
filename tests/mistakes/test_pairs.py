"""The pairs themselves: each mistake is marked, and its twin is the same training without it."""

from __future__ import annotations

import difflib

import pytest
from mistake_pairs import FOLDER, Pair, pairs


def test_every_script_has_its_twin() -> None:
    names = (
        {path.name for path in FOLDER.glob("*.py")}
        - {"mistake_pairs.py"}
        - {path.name for path in FOLDER.glob("test_*")}
    )
    twins = {one.name for pair in pairs() for one in (pair.mistake, pair.repaired)}
    assert names == twins
    assert len(pairs()) >= 30


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.name)
def test_they_differ_in_the_marked_mistake_and_little_else(pair: Pair) -> None:
    assert pair.codes
    mistake, repaired = (path.read_text("utf-8").splitlines() for path in (pair.mistake, pair.repaired))
    assert mistake[0] == repaired[0]
    assert not any("# mistake" in line for line in repaired)
    changes = [line for line in difflib.ndiff(mistake, repaired) if line[0] in "-+"]
    assert 1 <= len(changes) <= 12
