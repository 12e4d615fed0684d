"""What `-v` adds for a GPU: the lines that hold the most, the waits of the host, the steps, the facts."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from flatout.recording.schema import Place
from flatout.report.layout import INDENT, print_columns, print_line
from flatout.report.sources import place_text, plain, source_line
from flatout.report.units import count_text, size_text
from flatout.virtual.prediction import Result

_MOST_ROWS = 12


def print_details(result: Result, console: Console) -> None:
    """Write the sections of `result` that have something to say."""
    _print_section("Lines that hold the most", _holders(result), {0}, console)
    _print_section("Where the host waits for the GPU", _waits(result), {0}, console)
    _print_section("Steps", _steps(result), {0, 1, 2}, console)
    _print_section("Facts", _facts(result), set(), console)


def _print_section(title: str, rows: list[list[Text]], right: set[int], console: Console) -> None:
    if not rows:
        return
    console.print()
    print_line(Text(INDENT).append(title, "bold"), console)
    print_columns(rows[:_MOST_ROWS], right, console)
    if len(rows) > _MOST_ROWS:
        print_line(Text(INDENT).append(f"and {len(rows) - _MOST_ROWS} more in --json", "dim"), console)


def _holders(result: Result) -> list[list[Text]]:
    ordered = sorted(result.holders, key=lambda holder: holder.size_bytes, reverse=True)
    return [
        [Text(size_text(held.size_bytes)), Text(held.category), _where(held.place), _source(held.place)]
        for held in ordered
    ]


def _waits(result: Result) -> list[list[Text]]:
    ordered = sorted(result.waits, key=lambda wait: wait.count, reverse=True)
    rows = []
    for wait in ordered:
        reason = f"{plain(wait.reason)}, steers the run" if wait.steered else plain(wait.reason)
        rows.append([Text(f"{wait.count:,} x"), Text(reason), _where(wait.place), _source(wait.place)])
    return rows


def _steps(result: Result) -> list[list[Text]]:
    return [
        [
            Text(f"step {step.index}"),
            Text(count_text(step.operations, "operation")),
            Text(f"{size_text(step.peak_allocated_bytes)} allocated at most"),
            Text("") if step.place is None else _where(step.place),
        ]
        for step in result.per_step
    ]


def _facts(result: Result) -> list[list[Text]]:
    rows = []
    for name, value in sorted(result.facts.items()):
        shown = value if isinstance(value, str) else json.dumps(value)
        rows.append([Text(plain(name), "dim"), Text(plain(shown).replace("\n", " "))])
    return rows


def _where(place: Place | None) -> Text:
    if place is None:
        return Text("no line known", "dim")
    return Text(place_text(place.file, place.line), "bold")


def _source(place: Place | None) -> Text:
    source = None if place is None else source_line(place.file, place.line)
    return Text(source or "", "cyan")
