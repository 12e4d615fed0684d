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
    """Name, answer, how full, and the figure. On a narrow console the figure goes first, then the bars: each GPU's own
    verdict repeats them.
    """
    results = prediction.results
    verdicts = [verdict_of(result) for result in results]
    # Six cells: the indent and the gaps; then as many for the percentage.
    with_bar = 6 + max(len(r.label) for r in results) + max(len(v.word) for v in verdicts) + _BAR_CELLS + 6
    with_detail = with_bar + 2 + max(len(verdict.detail) for verdict in verdicts)
    rows = []
    for result, verdict in zip(results, verdicts, strict=True):
        row = [Text(result.label, "bold"), Text(verdict.word, f"bold {verdict.style}")]
        row.append(_bar(result, console) if console.width >= with_bar else Text(_share(result)))
        row.extend([Text(plain(verdict.detail))] if console.width >= with_detail else [])
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
