"""Several GPUs side by side: one line each, before any detail."""

from __future__ import annotations

import math

from rich.console import Console
from rich.text import Text

from flatout.report.layout import print_columns
from flatout.report.sources import plain
from flatout.report.units import fine_duration_text
from flatout.report.verdict import verdict_of
from flatout.virtual.prediction import Prediction, Result

_BAR_CELLS = 20
_PARTS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")  # eighths of a cell


def print_comparison(prediction: Prediction, console: Console) -> None:
    """Name, answer, how full, and the figure. On a narrow console the figure goes first, then the bars: each GPU's own
    verdict repeats them. What an answer must not be read without stays.
    """
    results = prediction.results
    verdicts = [verdict_of(result) for result in results]
    longest_note = max(len(verdict.note) for verdict in verdicts)
    # Six cells: the indent and the gaps; then as many for the percentage.
    with_bar = 6 + max(len(r.label) for r in results) + max(len(v.word) for v in verdicts) + _BAR_CELLS + 6
    with_bar += longest_note + 2 if longest_note else 0
    steps = [_step(result) for result in results]
    with_bar += max(map(len, steps)) + 2 if any(steps) else 0
    with_detail = with_bar + 2 + max(len(verdict.detail) for verdict in verdicts)
    rows = []
    for result, verdict, step in zip(results, verdicts, steps, strict=True):
        row = [Text(result.label, "bold"), Text(verdict.word, f"bold {verdict.style}")]
        row.extend([Text(step)] if any(steps) else [])
        row.append(_bar(result, console) if console.width >= with_bar else Text(_share(result)))
        row.extend([Text(plain(verdict.detail))] if console.width >= with_detail else [])
        row.extend([Text(verdict.note, "yellow")] if longest_note else [])
        rows.append(row)
    print_columns(rows, set(), console)


def _step(result: Result) -> str:
    return "" if result.time is None else f"{fine_duration_text(result.time.step_seconds)} a step"


def _bar(result: Result, console: Console) -> Text:
    """How full the GPU is in certain memory, without its kinds; empty where nothing is known."""
    memory = result.unlimited or result.memory
    share = _share(result)
    if memory is None or not share:
        return Text("")
    ascii_only = console.options.ascii_only
    full = filled_cells(memory.needed_bytes / memory.usable_bytes, _BAR_CELLS, ascii_only=ascii_only)
    bar = Text(full, verdict_of(result).style).append(("." if ascii_only else "·") * (_BAR_CELLS - len(full)), "dim")
    return bar.append(f" {share:>5}")


def filled_cells(ratio: float, width: int, *, ascii_only: bool) -> str:
    """The filled part of a bar of `width` cells, to an eighth of a cell where there are such characters.

    What is more than nothing is seen, and so is that something is left.
    """
    fineness = 1 if ascii_only else len(_PARTS)
    most = width * fineness
    filled = min(round(ratio * most), most if ratio >= 1 else most - 1)
    filled = max(filled, int(ratio > 0))
    return ("#" if ascii_only else "█") * (filled // fineness) + _PARTS[filled % fineness]


def _share(result: Result) -> str:
    """How full, in percent; 100 % only where nothing is left, and nothing is missing."""
    memory = result.unlimited or result.memory
    if memory is None or not result.used_gpu or result.outcome == "error":
        return ""
    ratio = memory.needed_bytes / memory.usable_bytes
    if 0 < ratio < 0.01:
        return "<1%"
    return f"{math.floor(ratio * 100) if ratio < 1 else math.ceil(ratio * 100):,}%"
