"""One line a finding."""

from __future__ import annotations

from flatout.check.result import CheckResult
from flatout.report.check import Options
from flatout.report.check.parts import SEVERITY_COLOUR, mark, paint, place


def render(result: CheckResult, options: Options) -> str:
    """`train.py:12:5: FO101 [*] message`, a line each."""
    lines = []
    for diagnosis in result.diagnoses:
        finding = diagnosis.finding
        code = paint(finding.code, SEVERITY_COLOUR[finding.severity], options.colour)
        where = paint(place(finding), "bold", options.colour)
        lines.append(f"{where}: {code} {mark(diagnosis, options.unsafe)}{finding.message}\n")
    return "".join(lines)
