"""GitLab's code quality report.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import hashlib
import os

import msgspec

from flatout.check.result import CheckResult
from flatout.report.check import Options
from flatout.report.check.parts import slashed

_SEVERITIES = {"high": "major", "medium": "minor", "low": "info", "info": "info"}


def render(result: CheckResult, options: Options) -> str:
    """A list with an object a finding. Its fingerprint does not change when lines above it do."""
    items = []
    seen: dict[str, int] = {}
    for diagnosis in result.diagnoses:
        finding, shown = diagnosis.finding, diagnosis.excerpt
        number = finding.line - shown.first_line
        source = shown.lines[number].strip() if 0 <= number < len(shown.lines) else ""
        path = _path(finding.file)
        same = "\0".join((path, finding.code, finding.message, source))
        seen[same] = seen.get(same, 0) + 1
        items.append(
            {
                "check_name": finding.code,
                "description": f"{finding.code} {finding.name}: {finding.message}",
                "severity": _SEVERITIES[finding.severity],
                "fingerprint": hashlib.sha256(f"{same}\0{seen[same]}".encode("utf-8", "surrogatepass")).hexdigest(),
                "location": {"path": path, "lines": {"begin": finding.line, "end": finding.end_line}},
            }
        )
    return msgspec.json.format(msgspec.json.encode(items), indent=2).decode() + "\n"


def _path(file: str) -> str:
    """The path from the repository's root, which GitLab names."""
    root = os.environ.get("CI_PROJECT_DIR")
    absolute = os.path.abspath(file)
    if root and absolute.startswith(os.path.join(root, "")):
        return slashed(os.path.relpath(absolute, root))
    return slashed(file)
