"""What one line of the result table is, and what a set of measurements comes to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """One goal: how many rows it was measured on, what was wanted, what came out, and whether that meets it."""

    set: str
    rows: int
    goal: str
    got: str
    met: bool | None
    """None: a figure to read, not a goal."""

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def share(part: int, whole: int) -> str:
    """``59 of 60 (98.3 %)``."""
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def median_error_line(name: str, errors_percent: Sequence[float], goal_percent: float, what: str) -> Line:
    """A goal on the median of absolute errors in percent."""
    if not errors_percent:
        return Line(name, 0, f"{what} within {goal_percent:g} % median", "nothing measured", False)
    sizes = [abs(error) for error in errors_percent]
    median = statistics.median(sizes)
    got = f"median {median:.1f} %, worst {max(errors_percent, key=abs):+.1f} %"
    return Line(name, len(sizes), f"{what} within {goal_percent:g} % median", got, median <= goal_percent)


def table(lines: Sequence[Line]) -> str:
    """The lines as text in columns."""
    rows = [("set", "rows", "goal", "got", "met")]
    words = {True: "yes", False: "NO", None: "-"}
    rows += [(line.set, str(line.rows), line.goal, line.got, words[line.met]) for line in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
