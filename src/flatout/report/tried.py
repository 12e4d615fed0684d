"""One argument of the script at several values, side by side."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.report.layout import print_columns
from flatout.report.units import fine_duration_text, rate_text, size_text
from flatout.virtual.prediction import LargestBatch, PredictedOutcome, Tried

_WORDS: dict[PredictedOutcome, tuple[str, str]] = {
    "fits": ("fits", "green"),
    "may_not_fit": ("may not fit", "yellow"),
    "out_of_memory": ("does not fit", "red"),
    "error": ("fails", "red"),
}


def print_tried(found: LargestBatch, console: Console) -> None:
    """A line a value; the largest that fits and the fastest are named."""
    known = any(one.samples_per_second is not None for one in found.tried)
    rate = "samples/s" if known else "per second"
    head = [Text(word, "dim") for word in (found.argument, "", "needs", "step", rate, "")]
    rows = [
        [
            Text(f"{one.value:,}", "bold"),
            Text(*_WORDS[one.outcome]),
            Text("" if one.needed_bytes is None or one.outcome == "error" else _needs(one)),
            Text("" if one.step_seconds is None else fine_duration_text(one.step_seconds)),
            Text(_rate(one.samples_per_second if known else one.value_per_second)),
            Text(", ".join(_titles(one, found)), "bold"),
        ]
        for one in found.tried
    ]
    print_columns([head, *rows], {0, 2, 3, 4}, console)


def _needs(one: Tried) -> str:
    return f"{size_text(one.needed_bytes or 0)} of {size_text(one.usable_bytes or 0)}"


def _rate(per_second: float | None) -> str:
    return "" if per_second is None else rate_text(per_second)


def _titles(one: Tried, found: LargestBatch) -> list[str]:
    titles = (("largest", found.largest), ("fastest", found.fastest))
    return [title for title, value in titles if value == one.value]
