"""Findings below a prediction: what each would save, at which line, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from flatout.findings import Finding
from flatout.report.layout import print_labelled, print_line, print_quotation
from flatout.report.sources import place_text, plain
from flatout.report.units import fine_duration_text, size_text

_STYLES = {"high": "bold red", "medium": "yellow", "low": "", "info": "dim"}
_FEW = 5


def print_findings(findings: Sequence[Finding], gpu: str, console: Console, *, verbose: bool = False) -> None:
    """The largest saving first. Each is what a step would be shorter by if this alone were mended, replayed."""
    title = f"What would make a step shorter on {gpu}"
    print_titled(findings, Text("  ").append(title, "bold").append(", each alone, by replay", "dim"), console, verbose)


def print_titled(findings: Sequence[Finding], title: Text, console: Console, verbose: bool) -> None:
    """The findings below a title of their own."""
    shown = findings if verbose else findings[:_FEW]
    print_line(title, console)
    for finding in shown:
        console.print()
        text = Text(plain(finding.message))
        if finding.file:
            text.append(" at ").append(place_text(finding.file, finding.line), "bold")
        print_labelled(finding.code, text, console)
        if finding.file:
            print_quotation(finding.file, finding.line, console)
        if finding.saving is not None:
            print_labelled("", Text(_saving(finding), _STYLES[finding.severity]), console)
        if finding.remedy is not None:
            print_labelled("", Text(plain(finding.remedy.text)), console)
    if len(shown) < len(findings):
        console.print()
        print_labelled("", Text(f"{len(findings) - len(shown)} more with -v", "dim"), console)


def _saving(finding: Finding) -> str:
    saving = finding.saving
    assert saving is not None
    if saving.seconds_per_step is None:
        return f"{size_text(saving.bytes or 0)} more memory with every step"
    seconds = saving.seconds_per_step or 0.0
    least, most = saving.low or 0.0, seconds if saving.high is None else saving.high
    if not least and most == seconds:
        return f"saves at most {fine_duration_text(seconds)} a step"
    return f"saves {fine_duration_text(seconds)} a step ({fine_duration_text(least)} to {fine_duration_text(most)})"
