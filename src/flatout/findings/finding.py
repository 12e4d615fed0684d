"""A finding: one mistake at one place, with the evidence for it, what it costs and what to do.

The same type whether it was seen in the source (`check`), in a recording (`explain`) or on a machine (`doctor`); its
JSON is that of docs/design.md. A static and a run-time rule for the same mistake share its code.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Severity = Literal["high", "medium", "low", "info"]

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")  # the worst first


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What removing the mistake gives back, computed for this run; never a figure from elsewhere."""

    seconds_per_step: float | None = None
    low: float | None = None  # of the seconds, 95 % interval
    high: float | None = None
    bytes: int | None = None


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. `safe`: the program computes the same afterwards."""

    text: str
    speedup: str | None = None
    safe: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake. Lines and columns count from 1, columns in characters; the end is exclusive."""

    code: str
    name: str
    severity: Severity
    message: str  # one line that names the thing in the user's code
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None  # of a notebook, from 1; line then counts from the cell's first
    evidence: dict[str, Any] = {}
    saving: Saving | None = None
    remedy: Remedy | None = None
