"""What `-v` adds for a GPU: the lines that hold the most, the dearest operators, the waits, the steps, the facts."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from flatout.recording.schema import Place
from flatout.report.layout import INDENT, print_columns, print_hanging, print_line
from flatout.report.sources import place_text, plain, source_line
from flatout.report.units import count_text, fine_duration_text, size_text
from flatout.virtual.prediction import Result

_MOST_ROWS = 12


def print_details(result: Result, console: Console) -> None:
    """Write the sections of `result` that have something to say."""
    # After running out of memory, memory and steps are those of the second run, waits and facts those of the first.
    unlimited = "" if result.unlimited is None else ", without a limit"
    until = "" if result.unlimited is None else ", until memory ran out"
    _print_section(f"Lines that hold the most{unlimited}", _holders(result), {0}, console)
    _print_section(f"Steps{unlimited}", _steps(result), {0, 1, 2}, console)
    _print_section("What takes the GPU longest, in a step", _dearest(result), {0, 1}, console)
    _print_section(f"Where the host waits for the GPU{until}", _waits(result), {0}, console)
    _print_facts(f"Facts{until}", result, console)


def _print_section(title: str, rows: list[list[Text]], right: set[int], console: Console) -> None:
    if not rows:
        return
    _print_title(title, console)
    print_columns(rows[:_MOST_ROWS], right, console)
    if len(rows) > _MOST_ROWS:
        print_line(Text(INDENT).append(f"and {len(rows) - _MOST_ROWS} more in --json", "dim"), console)


def _print_title(title: str, console: Console) -> None:
    console.print()
    print_line(Text(INDENT).append(title, "bold"), console)


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
        rows.append([Text(f"{wait.count:,} x"), _where(wait.place), Text(reason), _source(wait.place)])
    return rows


def _dearest(result: Result) -> list[list[Text]]:
    if result.time is None:
        return []
    return [
        [
            Text(fine_duration_text(one.seconds)),
            Text(f"{one.calls:,.0f} x"),
            Text(plain(one.operator).replace("aten::", "")),
            Text("") if one.file is None else Text(place_text(one.file, one.line), "bold"),
            Text((one.file and source_line(one.file, one.line)) or "", "cyan"),
        ]
        for one in result.time.dearest
    ]


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


def _print_facts(title: str, result: Result, console: Console) -> None:
    """Names and values; a value that is longer than the line goes on below itself."""
    if not result.facts:
        return
    _print_title(title, console)
    width = min(max(map(len, result.facts)), console.width // 3)
    for name, value in sorted(result.facts.items()):
        lead = Text(INDENT).append(plain(name).ljust(width), "dim").append(INDENT)
        print_hanging(lead, Text(fact_text(name, value)), console)


def fact_text(name: str, value: Any) -> str:
    """A fact's value for people: counts by kind as `flash 12, math 3`, bytes with their unit."""
    if isinstance(value, dict):
        return ", ".join(f"{plain(str(kind))} {fact_text(name, one)}" for kind, one in value.items()) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return size_text(value) if "_bytes" in name else f"{value:,}"
    return plain(value if isinstance(value, str) else json.dumps(value)).replace("\n", " ")


def _where(place: Place | None) -> Text:
    if place is None:
        return Text("no line known", "dim")
    return Text(place_text(place.file, place.line), "bold")


def _source(place: Place | None) -> Text:
    source = None if place is None else source_line(place.file, place.line)
    return Text(source or "", "cyan")
