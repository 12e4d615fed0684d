"""Several GPUs side by side: one line each, before any detail."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.report.layout import print_columns
from flatout.report.sources import plain
from flatout.report.verdict import verdict_of
from flatout.virtual.prediction import Prediction, Result

_BAR_CELLS = 20


def print_comparison(prediction: Prediction, console: Console) -> None:
    """Name, answer, how full, and the figure. The small bars go where there is no room for them."""
    results = prediction.results
    verdicts = [verdict_of(result) for result in results]
    taken = max(len(r.label) for r in results) + max(len(v.word) + len(v.detail) for v in verdicts)
    # Eight cells: the indent and the gaps; six: the percentage.
    with_bar = console.width >= taken + _BAR_CELLS + 8 + 6
    with_detail = console.width >= taken + 6
    rows = []
    for result, verdict in zip(results, verdicts, strict=True):
        row = [Text(result.label, "bold"), Text(verdict.word, f"bold {verdict.style}")]
        row.extend([_bar(result, console)] if with_bar else [])
        row.append(Text(plain(verdict.detail)) if with_detail else Text(_share(result)))
        rows.append(row)
    print_columns(rows, set(), console)


def _bar(result: Result, console: Console) -> Text:
    """How full the GPU is in certain memory, without its kinds; empty where nothing is known."""
    memory = result.unlimited or result.memory
    share = _share(result)
    if memory is None or not share:
        return Text("")
    full = round(min(1.0, memory.needed_bytes / memory.usable_bytes) * _BAR_CELLS)
    block, rest = ("#", ".") if console.options.ascii_only else ("█", "·")
    bar = Text(block * full, verdict_of(result).style).append(rest * (_BAR_CELLS - full), "dim")
    return bar.append(f" {share:>5}")


def _share(result: Result) -> str:
    memory = result.unlimited or result.memory
    if memory is None or not result.used_gpu or result.outcome == "error":
        return ""
    return f"{memory.needed_bytes / memory.usable_bytes:.0%}"
