"""The result of a check in flatout's own JSON, kind `check`."""

from __future__ import annotations

import msgspec

from flatout import __version__
from flatout.check.result import CheckResult
from flatout.findings import Finding


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be checked, or not by every rule."""

    file: str
    reason: str


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """`torch`: the oldest PyTorch that is admitted, by which was judged; None: not known, or not one for all."""

    schema: str = "flatout.check/1"
    flatout: str = __version__
    torch: str | None
    files_checked: int
    findings: tuple[Finding, ...]
    unreadable: tuple[Unreadable, ...]


def check_report(result: CheckResult) -> CheckReport:
    """What `--json` writes."""
    return CheckReport(
        torch=None if result.torch is None else f"{result.torch[0]}.{result.torch[1]}",
        files_checked=result.files_checked,
        findings=tuple(diagnosis.finding for diagnosis in result.diagnoses),
        unreadable=tuple(Unreadable(file=file, reason=reason) for file, reason in result.errors),
    )
