"""One file, asked by rules.

    check_data(job, data) -> FileResult

Nothing that a file holds, and no mistake in a rule, comes out of here as an exception: it becomes the result's one-line
error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from flatout.check.excerpt import excerpt
from flatout.check.jobs import Job, rule_set
from flatout.check.result import Diagnosis, FileResult, PlacedEdit, PlacedFix, Position, sort_key
from flatout.check.rule import Hit, Rule, TextFile
from flatout.check.stack import roomy
from flatout.check.suppress import Suppressions
from flatout.errors import UnreadableFileError
from flatout.findings import Finding, Remedy
from flatout.source import Document, SourceText, Span, read_document
from flatout.source.plain import read_plain

TOO_DEEP = "nested too deeply to be checked; split the expression, or leave the file out"


@roomy
def check_data(job: Job, data: bytes, digest: bytes = b"") -> FileResult:
    """What the rules find in `data`, the content of the job's file."""
    rules = rule_set(job.rules, job.is_test)
    if not rules.concern(data, job.kind):
        return FileResult(job.shown, digest=digest)
    diagnoses: list[Diagnosis] = []
    errors: list[str] = []
    try:
        if job.kind != "text" and rules.python:
            document = read_document(job.shown, data)
            _ask_python(document, rules.python, job, diagnoses, errors)
            if job.kind == "notebook" and document.skipped_blocks:  # in Markdown, pieces of code are no mistake
                errors.append(_left_out(document))
        if job.kind != "python" and rules.text:
            plain = read_plain(job.shown, data) if job.kind != "notebook" else read_document(job.shown, data)
            _ask_text(plain, rules.text, job, diagnoses, errors)
    except UnreadableFileError as error:
        errors.append(str(error).removeprefix(f"{job.shown}: "))
    except (RecursionError, MemoryError):
        errors.append(TOO_DEEP)
    once = {sort_key(diagnosis): diagnosis for diagnosis in reversed(diagnoses)}
    return FileResult(job.shown, tuple(once[key] for key in sorted(once)), "; ".join(errors) or None, digest)


def _left_out(document: Document) -> str:
    """Which cells of a notebook could not be asked about."""
    cells = [str(place.cell) for place in document.skipped_blocks]
    return f"cell{'s' * (len(cells) > 1)} {', '.join(cells)}: not Python, left out"


def parse_error(error: Exception, document: Document) -> str:
    """Why a text is not Python, in a line."""
    if isinstance(error, RecursionError | MemoryError):
        return TOO_DEEP
    version = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    if not isinstance(error, SyntaxError):
        return f"not valid {version}: {error}"
    where = ""
    if error.lineno and 1 <= error.lineno <= len(document.python.line_starts):
        start = document.python.line_starts[error.lineno - 1]
        place = document.place(min(start + max(0, (error.offset or 1) - 1), len(document.python.text)))
        where = f", {f'cell {place.cell}, ' if place.cell else ''}line {place.line}"
    return f"not valid {version}{where}: {error.msg}; if newer Python allows it, run flatout with that"


def _ask_python(
    document: Document, rules: tuple[Rule, ...], job: Job, diagnoses: list[Diagnosis], errors: list[str]
) -> None:
    from flatout.check.module import Module

    text = document.python
    concerned = [rule for rule in rules if not rule.needs or any(word in text.text for word in rule.needs)]
    if not concerned:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the file's own code, such as an invalid escape
        try:
            module = Module.parse(text, path=job.shown, is_test=job.is_test, torch=job.torch)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            errors.append(parse_error(error, document))
            return
        _ask(document, concerned, lambda rule: _finder(rule)(module), job, diagnoses, errors)


def _ask_text(
    document: Document, rules: tuple[Rule, ...], job: Job, diagnoses: list[Diagnosis], errors: list[str]
) -> None:
    file = TextFile(document.python, job.shown, job.torch)
    concerned = [rule for rule in rules if not rule.needs or any(word in file.text.text for word in rule.needs)]
    _ask(document, concerned, lambda rule: _finder(rule)(file), job, diagnoses, errors)


def _finder(rule: Rule) -> Callable[[object], Iterator[Hit]]:
    # What a rule reads says which of the two types its finder takes.
    return cast("Callable[[object], Iterator[Hit]]", rule.find)


def _ask(
    document: Document,
    rules: Iterable[Rule],
    hits_of: Callable[[Rule], Iterator[Hit]],
    job: Job,
    diagnoses: list[Diagnosis],
    errors: list[str],
) -> None:
    suppressions: Suppressions | None = None
    looked = False
    for rule in rules:
        try:
            hits = list(hits_of(rule))
        except (RecursionError, MemoryError):
            errors.append(TOO_DEEP)
            return
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            errors.append(f"a mistake of flatout's own in {rule.code} ({said}); please report it")
            continue
        if hits and not looked:
            suppressions = Suppressions.of(document.python.text, is_python=rule.reads == "python")
            looked = True
        for hit in hits:
            span = hit.node if isinstance(hit.node, Span) else document.python.span(hit.node)
            if suppressions is None or not suppressions.hide(rule, *_lines(document.python, span)):
                diagnoses.append(_diagnosis(document, rule, hit, span, job))


def _lines(text: SourceText, span: Span) -> tuple[int, int]:
    return text.position(span.start)[0], text.position(span.end)[0]


def _diagnosis(document: Document, rule: Rule, hit: Hit, span: Span, job: Job) -> Diagnosis:
    start, end = document.place(span.start), document.place(span.end)
    if end.cell != start.cell:  # a cell's end is the next one's start
        last = document.place(span.end - 1)
        end = last._replace(column=last.column + 1)
    fix = None
    if hit.fix is not None and rule.code not in job.unfixed:
        edits = tuple(
            PlacedEdit(
                edit.start, edit.end, edit.content, _position(document, edit.start), _position(document, edit.end)
            )
            for edit in sorted(hit.fix.edits)
        )
        fix = PlacedFix(hit.fix.message, hit.fix.applicability, edits)
    finding = Finding(
        code=rule.code,
        name=rule.name,
        severity=hit.severity or rule.severity,
        message=hit.message,
        file=job.shown,
        line=start.line,
        column=start.column,
        end_line=end.line,
        end_column=end.column,
        cell=start.cell,
        evidence=dict(hit.evidence),
        remedy=Remedy(text=hit.remedy, safe=hit.fix is not None and hit.fix.applicability == "safe"),
    )
    return Diagnosis(finding, excerpt(document, span), fix, rule.reads)


def _position(document: Document, offset: int) -> Position:
    place = document.place(offset)
    return Position(place.line, place.column)
