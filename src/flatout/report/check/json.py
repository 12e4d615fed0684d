"""The JSON of ruff's `--output-format json`: the same keys, so that what reads one reads the other."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from flatout.check.result import CheckResult, Diagnosis, PlacedFix, Position
from flatout.report.check import Options


def render(result: CheckResult, options: Options) -> str:
    """A list with an object a finding. Rows and columns count from 1, ends are exclusive."""
    items = [_item(diagnosis) for diagnosis in result.diagnoses]
    return msgspec.json.format(msgspec.json.encode(items), indent=2).decode() + "\n"


def _item(diagnosis: Diagnosis) -> dict[str, Any]:
    finding = diagnosis.finding
    return {
        "cell": finding.cell,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "filename": os.path.abspath(finding.file),
        "location": {"row": finding.line, "column": finding.column},
        "end_location": {"row": finding.end_line, "column": finding.end_column},
        "message": finding.message,
        "url": None,
        "noqa_row": finding.line,
        "fix": None if diagnosis.fix is None else _fix(diagnosis.fix),
    }


def _fix(fix: PlacedFix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "message": fix.message,
        "edits": [
            {"content": edit.content, "location": _at(edit.location), "end_location": _at(edit.end_location)}
            for edit in fix.edits
        ],
    }


def _at(position: Position) -> dict[str, int]:
    return {"row": position.line, "column": position.column}
