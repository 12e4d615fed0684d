"""SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from flatout import __version__
from flatout.check.registry import all_rules
from flatout.check.result import CheckResult, Diagnosis, PlacedFix, Position
from flatout.findings import Severity
from flatout.report.check import Options
from flatout.report.check.parts import slashed

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: dict[Severity, str] = {"high": "error", "medium": "warning", "low": "note", "info": "note"}


def render(result: CheckResult, options: Options) -> str:
    """One run with all findings; what could not be checked stands among the notifications of its invocation."""
    found = {diagnosis.finding.code for diagnosis in result.diagnoses}
    rules = [rule for rule in all_rules() if rule.code in found]
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "flatout",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [
                    {
                        "id": rule.code,
                        "name": rule.name,
                        "shortDescription": {"text": rule.name.replace("-", " ")},
                        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
                    }
                    for rule in rules
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not result.errors,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": reason},
                        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(file)}}}],
                    }
                    for file, reason in result.errors
                ],
            }
        ],
        "results": [_result(diagnosis, numbers[diagnosis.finding.code]) for diagnosis in result.diagnoses],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _result(diagnosis: Diagnosis, number: int) -> dict[str, Any]:
    finding = diagnosis.finding
    help_text = f" {finding.remedy.text}" if finding.remedy is not None and finding.remedy.text else ""
    location = {"artifactLocation": {"uri": _uri(finding.file)}}
    region = _region(Position(finding.line, finding.column), Position(finding.end_line, finding.end_column))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}.{help_text}" if help_text else finding.message},
        "locations": [{"physicalLocation": {**location, "region": region}}],
        "properties": {"severity": finding.severity, "cell": finding.cell, "evidence": finding.evidence},
    }
    if diagnosis.fix is not None:
        result["fixes"] = [_fix(diagnosis.fix, location)]
    return result


def _fix(fix: PlacedFix, location: dict[str, Any]) -> dict[str, Any]:
    replacements = [
        {"deletedRegion": _region(edit.location, edit.end_location), "insertedContent": {"text": edit.content}}
        for edit in fix.edits
    ]
    return {"description": {"text": fix.message}, "artifactChanges": [{**location, "replacements": replacements}]}


def _region(start: Position, end: Position) -> dict[str, int]:
    return {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column}


def _uri(file: str) -> str:
    """A relative path as it is, an absolute one as a file's URI."""
    return Path(file).as_uri() if os.path.isabs(file) else quote(slashed(file))
