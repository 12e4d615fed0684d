"""Workflow commands of GitHub Actions, which show findings beside the lines of a pull request.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from flatout.check.result import CheckResult
from flatout.report.check import Options
from flatout.report.check.parts import headline, slashed

_LEVELS = {"high": "error", "medium": "warning", "low": "notice", "info": "notice"}


def render(result: CheckResult, options: Options) -> str:
    """A command a finding, and an error for each file that could not be checked."""
    lines = []
    for diagnosis in result.diagnoses:
        finding = diagnosis.finding
        properties = {"title": f"flatout ({finding.code})", "file": slashed(finding.file)}
        if finding.cell is None:  # lines of a cell are none of the file's
            properties["line"] = str(finding.line)
            properties["endLine"] = str(finding.end_line)
            if finding.line == finding.end_line:  # columns are for one line only
                properties["col"] = str(finding.column)
                properties["endColumn"] = str(finding.end_column)
        text = headline(diagnosis, options.unsafe)
        if finding.remedy is not None and finding.remedy.text:
            text += f"\n  help: {finding.remedy.text}"
        lines.append(_command(_LEVELS[finding.severity], properties, text))
    for file, reason in result.errors:
        lines.append(_command("error", {"title": "flatout", "file": slashed(file)}, f"{file}: {reason}"))
    return "".join(lines)


def _command(level: str, properties: dict[str, str], text: str) -> str:
    said = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
    return f"::{level} {said}::{_escape(text)}\n"


def _escape(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
