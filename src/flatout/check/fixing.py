"""Fixes, made.

    fix_data(job, data, unsafe=False) -> Fixed(data, result, applied, dropped)

In rounds, until a round changes nothing: of fixes that overlap the first is made and the others wait for the next
round, where they are looked for anew. A fix that would leave text that is not Python is dropped, and said.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from flatout.check.asking import check_data
from flatout.check.jobs import Job
from flatout.check.result import Diagnosis, FileResult, PlacedFix
from flatout.check.stack import roomy
from flatout.errors import UnreadableFileError
from flatout.source import Document, Edit, apply_edits, read_document
from flatout.source.plain import read_plain

MOST_ROUNDS = 10

Key = tuple[str, tuple[tuple[str, str], ...]]  # a fix, told so that it is known again when all has moved


class Fixed(NamedTuple):
    """A file after its fixes. `applied`: the diagnoses that were fixed; `dropped`: lines on what was not done."""

    data: bytes
    result: FileResult
    applied: tuple[Diagnosis, ...]
    dropped: tuple[str, ...]


def is_applicable(fix: PlacedFix | None, *, unsafe: bool) -> bool:
    """Whether a fix may be made: safe ones, and on request unsafe ones; `display` is never made."""
    return fix is not None and (fix.applicability == "safe" or (unsafe and fix.applicability == "unsafe"))


@roomy
def fix_data(job: Job, data: bytes, *, unsafe: bool = False) -> Fixed:
    """`data`, the content of the job's file, with all fixes made that may be."""
    applied: list[Diagnosis] = []
    dropped: dict[Key, str] = {}
    result = check_data(job, data)
    for _ in range(MOST_ROUNDS):
        wanted = [one for one in result.diagnoses if is_applicable(one.fix, unsafe=unsafe)]
        try:
            made, data = _round(job, data, wanted, dropped)
        except UnreadableFileError as error:  # an encoding that cannot carry the edits
            return Fixed(data, result, tuple(applied), (*dropped.values(), str(error)))
        if not made:
            return Fixed(data, result, tuple(applied), tuple(dropped.values()))
        applied += made
        result = check_data(job, data)
    rest = sorted({one.finding.code for one in result.diagnoses if is_applicable(one.fix, unsafe=unsafe)})
    lines = [*dropped.values()]
    if rest:
        lines.append(f"{job.shown}: fixes of {', '.join(rest)} still ask for more after {MOST_ROUNDS} rounds")
    return Fixed(data, result, tuple(applied), tuple(lines))


def _round(
    job: Job, data: bytes, wanted: Sequence[Diagnosis], dropped: dict[Key, str]
) -> tuple[list[Diagnosis], bytes]:
    """The fixes of one round that were made, and the file with them."""
    for reads in ("python", "text"):
        # The two texts of a Markdown page count their offsets apart, so each has its own round.
        some = [one for one in wanted if one.reads == reads]
        if some:
            document = _document(job, data, reads)
            made, edits = _choose(document, some, dropped, job.shown, parse=reads == "python")
            if made:
                return made, document.edited(edits)
    return [], data


def _document(job: Job, data: bytes, reads: str) -> Document:
    if reads == "text" and job.kind != "notebook":
        return read_plain(job.shown, data)
    return read_document(job.shown, data)


Candidate = tuple[Diagnosis, tuple[Edit, ...]]


def _choose(
    document: Document, wanted: Sequence[Diagnosis], dropped: dict[Key, str], shown: str, *, parse: bool
) -> tuple[list[Diagnosis], tuple[Edit, ...]]:
    """The first fixes that do not overlap and together leave Python."""
    text = document.python.text
    candidates: list[Candidate] = []
    taken: list[Edit] = []  # sorted, none overlaps another
    for diagnosis in sorted(wanted, key=_start):
        edits = _edits(diagnosis)
        key = _key(diagnosis, text)
        if not edits or key in dropped or any(_meets(edit, taken) for edit in edits):
            continue
        if not all(document.holds(edit) for edit in edits):
            dropped[key] = _not_made(diagnosis, shown, "for it reaches beyond its block of code")
        else:
            candidates.append((diagnosis, edits))
            for edit in edits:
                if edit not in taken[bisect_left(taken, edit) :][:1]:
                    insort(taken, edit)
    kept: list[Candidate] = []
    for diagnosis, _ in _breaking(text, candidates, kept, parse):
        dropped[_key(diagnosis, text)] = _not_made(diagnosis, shown, "for it would not leave valid Python")
    return [diagnosis for diagnosis, _ in kept], tuple(sorted({edit for _, edits in kept for edit in edits}))


def _not_made(diagnosis: Diagnosis, shown: str, why: str) -> str:
    return f"{shown}:{diagnosis.finding.line}: the fix of {diagnosis.finding.code} was not made, {why}"


def _breaking(text: str, candidates: Sequence[Candidate], kept: list[Candidate], parse: bool) -> list[Candidate]:
    """The candidates that break `text` together with those `kept`, to which the others are added; found by halving."""
    if not candidates or _holds(text, {edit for _, edits in (*kept, *candidates) for edit in edits}, parse):
        kept += candidates
        return []
    if len(candidates) == 1:
        return list(candidates)
    half = len(candidates) // 2
    return [*_breaking(text, candidates[:half], kept, parse), *_breaking(text, candidates[half:], kept, parse)]


def _start(diagnosis: Diagnosis) -> tuple[int, int, str]:
    edits = _edits(diagnosis)
    return (edits[0].start, edits[-1].end, diagnosis.finding.code) if edits else (0, 0, "")


def _edits(diagnosis: Diagnosis) -> tuple[Edit, ...]:
    assert diagnosis.fix is not None
    return tuple(Edit(edit.start, edit.end, edit.content) for edit in diagnosis.fix.edits)


def _key(diagnosis: Diagnosis, text: str) -> Key:
    edits = _edits(diagnosis)
    return diagnosis.finding.code, tuple((text[edit.start : edit.end], edit.content) for edit in edits)


def _meets(edit: Edit, taken: Sequence[Edit]) -> bool:
    """Whether `edit` overlaps another one of `taken`. Insertions at one place do: their order would be chance."""
    number = bisect_left(taken, edit)
    return any(
        other != edit and ((edit.start < other.end and other.start < edit.end) or edit.start == other.start)
        for other in taken[max(0, number - 1) : number + 2]
    )


def _holds(text: str, edits: set[Edit], parse: bool) -> bool:
    """Whether `edits` can be made and leave Python, where it was that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            edited = apply_edits(text, edits)
            if parse:
                ast.parse(edited)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
