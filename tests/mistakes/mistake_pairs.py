"""The scripts of this folder: which code belongs to which line, and how each is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
_MARK = re.compile(r"# mistake: (FO\d+)$")


class Pair(NamedTuple):
    """A script with a mistake, and its repaired twin. `marks`: the lines that may be named, by code."""

    name: str
    mistake: Path
    repaired: Path
    marks: dict[str, tuple[int, ...]]
    needs_gpu: bool
    processes: int

    @property
    def codes(self) -> frozenset[str]:
        """Every one of them has to be found."""
        return frozenset(self.marks)


def pairs() -> list[Pair]:
    """All pairs, in the order of their names."""
    return [_pair(path) for path in sorted(FOLDER.glob("*_repaired.py"))]


def _pair(repaired: Path) -> Pair:
    mistake = repaired.with_name(repaired.name.replace("_repaired.py", ".py"))
    lines = mistake.read_text("utf-8").splitlines()
    marks: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(lines, 1):
        if found := _MARK.search(line):
            marks[found[1]] = (*marks.get(found[1], ()), number)
    return Pair(
        mistake.stem, mistake, repaired, marks, "Needs a GPU" in lines[0], 2 if "Started by torchrun" in lines[0] else 1
    )
