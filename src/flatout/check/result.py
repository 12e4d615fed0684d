"""What a check has found, as it goes between processes, into the cache and to reports.

FileResult(file, diagnoses, error, digest)
Diagnosis(finding, fix, excerpt, reads)
CheckResult(files_checked, torch, files)
"""

from __future__ import annotations

from typing import Literal

import msgspec

from flatout.check.versions import TorchVersion
from flatout.findings import Finding
from flatout.source import Applicability


class Position(msgspec.Struct, frozen=True):
    """Line and column in the file, or in the cell, from 1."""

    line: int
    column: int


class PlacedEdit(msgspec.Struct, frozen=True):
    """An edit: by offsets for who makes it, by positions for who shows it."""

    start: int
    end: int
    content: str
    location: Position
    end_location: Position


class PlacedFix(msgspec.Struct, frozen=True):
    """A fix whose edits are placed in the file."""

    message: str
    applicability: Applicability
    edits: tuple[PlacedEdit, ...]


class Excerpt(msgspec.Struct, frozen=True):
    """The lines around a finding. `caret_column` (from 0) and `caret_length` count characters of the line shown."""

    first_line: int
    lines: tuple[str, ...]
    caret_column: int
    caret_length: int


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding, what is offered against it, and the source that it stands in."""

    finding: Finding
    excerpt: Excerpt
    fix: PlacedFix | None = None
    reads: Literal["python", "text"] = "python"  # which text of the file the fix's offsets are of


class FileResult(msgspec.Struct, frozen=True):
    """What one file gave. `error`: why it could not be checked, or not by every rule, in one line without its name."""

    file: str
    diagnoses: tuple[Diagnosis, ...] = ()
    error: str | None = None
    digest: bytes = b""  # of what was read and asked


class CheckResult(msgspec.Struct, frozen=True):
    """What a whole check gave. `files` are those with something to say, in order."""

    files_checked: int
    torch: TorchVersion | None
    files: tuple[FileResult, ...]

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """All of them, by file and place."""
        return [diagnosis for file in self.files for diagnosis in file.diagnoses]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """File and reason of everything that could not be checked."""
        return [(file.file, file.error) for file in self.files if file.error is not None]


def sort_key(diagnosis: Diagnosis) -> tuple[int, int, int, str, str]:
    """The order of findings in a file."""
    found = diagnosis.finding
    return (found.cell or 0, found.line, found.column, found.code, found.message)
