"""What several formats say alike: where a finding is, whether it can be fixed, how much was found."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flatout.check.fixing import is_applicable
from flatout.check.result import CheckResult, Diagnosis
from flatout.findings import Finding

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "cyan": "36", "blue": "34"}
SEVERITY_COLOUR = {"high": "red", "medium": "yellow", "low": "blue", "info": "dim"}


def paint(text: str, colour: str, wanted: bool) -> str:
    """`text` in that colour of a terminal, where that is wanted."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted and text else text


def place(finding: Finding) -> str:
    """`train.py:12:5`, of a notebook `nb.ipynb:cell 3:2:5`."""
    cell = f"cell {finding.cell}:" if finding.cell is not None else ""
    return f"{finding.file}:{cell}{finding.line}:{finding.column}"


def mark(diagnosis: Diagnosis, unsafe: bool) -> str:
    """`[*] ` where `--fix` would do something."""
    return "[*] " if is_applicable(diagnosis.fix, unsafe=unsafe) else ""


def headline(diagnosis: Diagnosis, unsafe: bool) -> str:
    """`train.py:12:5: FO101 [*] message`"""
    finding = diagnosis.finding
    return f"{place(finding)}: {finding.code} {mark(diagnosis, unsafe)}{finding.message}"


def counted(number: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def summary(result: CheckResult, *, unsafe: bool, fixed: int = 0) -> list[str]:
    """The last lines: how much was found in how many files, and what can be fixed."""
    diagnoses = result.diagnoses
    files = counted(result.files_checked, "file")
    if not diagnoses:
        if not fixed:
            return [f"no GPU mistakes found in {files}"]
        return [f"{counted(fixed, 'GPU mistake')} found in {files}, all fixed"]
    found = f"{counted(len(diagnoses) + fixed, 'GPU mistake')} found in {files}"
    lines = [f"{found}: {fixed} fixed, {len(diagnoses)} left" if fixed else found]
    safe = sum(is_applicable(one.fix, unsafe=False) for one in diagnoses)
    risky = sum(is_applicable(one.fix, unsafe=True) for one in diagnoses) - safe
    if unsafe:
        safe, risky = safe + risky, 0
    if safe:
        more = f" ({risky} more with --unsafe-fixes)" if risky else ""
        lines.append(f"[*] {safe} can be fixed with --fix{more}")
    elif risky:
        lines.append(f"{risky} can be fixed with --fix --unsafe-fixes, which may change what the program computes")
    return lines


def statistics(diagnoses: Sequence[Diagnosis], unsafe: bool) -> list[str]:
    """One line a rule, the most frequent first: how often, its code, whether all can be fixed, its name."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        groups.setdefault((diagnosis.finding.code, diagnosis.finding.name), []).append(diagnosis)
    if not groups:
        return []
    width = len(str(max(len(group) for group in groups.values())))
    lines = []
    for (code, name), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        fixable = sum(is_applicable(one.fix, unsafe=unsafe) for one in group)
        sign = "[*]" if fixable == len(group) else "[-]" if fixable else "[ ]"
        lines.append(f"{len(group):>{width}}  {code}  {sign}  {name}")
    return lines


def slashed(path: str) -> str:
    """A path as URIs and CI servers write it."""
    return path.replace(os.sep, "/")
