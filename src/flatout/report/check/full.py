"""Each finding with the source that it stands in, for people."""

from __future__ import annotations

import unicodedata

from flatout.check.fixing import is_applicable
from flatout.check.result import CheckResult, Diagnosis, Excerpt
from flatout.report.check import Options
from flatout.report.check.parts import SEVERITY_COLOUR, mark, paint, place

_TAB_COLUMNS = 4


def render(result: CheckResult, options: Options) -> str:
    """A paragraph each, a blank line after it."""
    return "".join(f"{_paragraph(diagnosis, options)}\n\n" for diagnosis in result.diagnoses)


def _paragraph(diagnosis: Diagnosis, options: Options) -> str:
    finding = diagnosis.finding
    colour = SEVERITY_COLOUR[finding.severity]
    head = paint(f"{finding.code} {finding.name}", colour, options.colour)
    title = paint(finding.message, "bold", options.colour)
    lines = [f"{head} {mark(diagnosis, options.unsafe)}({finding.severity}): {title}"]
    lines += _frame(diagnosis, colour, options)
    if finding.remedy is not None and finding.remedy.text:
        lines.append(f"{paint('help:', 'cyan', options.colour)} {finding.remedy.text}")
    if (fix := diagnosis.fix) is not None and fix.message:
        how = {"safe": "--fix", "unsafe": "--fix --unsafe-fixes", "display": "by hand"}[fix.applicability]
        label = "fix:" if is_applicable(fix, unsafe=options.unsafe) else f"fix ({how}):"
        lines.append(f"{paint(label, 'cyan', options.colour)} {fix.message}")
    return "\n".join(lines)


def _frame(diagnosis: Diagnosis, colour: str, options: Options) -> list[str]:
    """The source with a caret line under the finding, like compilers show it."""
    shown, finding = diagnosis.excerpt, diagnosis.finding
    last = shown.first_line + len(shown.lines) - 1
    width = len(str(last))
    bar = paint("|", "dim", options.colour)
    lines = [f"{' ' * width}{paint('-->', 'dim', options.colour)} {place(finding)}", f"{' ' * width} {bar}"]
    for number, source in enumerate(shown.lines, start=shown.first_line):
        lines.append(f"{paint(f'{number:>{width}}', 'dim', options.colour)} {bar} {_printable(source)}".rstrip())
        if number == finding.line:
            start, length = _caret(source, shown)
            lines.append(f"{' ' * width} {bar} {' ' * start}{paint('^' * length, colour, options.colour)}")
    return [*lines, f"{' ' * width} {bar}"]


def _caret(source: str, shown: Excerpt) -> tuple[int, int]:
    """Where the carets start and how many there are, in columns of a terminal."""
    before = source[: shown.caret_column]
    marked = source[shown.caret_column : shown.caret_column + shown.caret_length]
    start = _columns(_printable(before))
    return start, max(1, _columns(_printable(before + marked)) - start)


def _printable(source: str) -> str:
    """`source` with tabs spread, and without characters that would steer the terminal."""
    if source.isascii() and source.isprintable():
        return source
    spread = source.expandtabs(_TAB_COLUMNS)
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Co") or c in _TURNING else c for c in spread)


# Marks that turn the direction of text: source that shows otherwise than it is read (CVE-2021-42574).
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _columns(text: str) -> int:
    """How wide `text` is on a terminal: marks that join a letter take no column, wide letters two."""
    if text.isascii():
        return len(text)
    width = 0
    for character in text:
        if unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width
