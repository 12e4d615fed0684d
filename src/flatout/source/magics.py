"""What IPython adds to Python, replaced by Python of the same length, so that no position moves.

`%time loss.item()` becomes `...  ;loss.item()`, `!nvidia-smi` becomes `...#dia-smi`, `files = !ls -l` becomes
`files = ...#-l`: an unknown value, and the rest in a comment. A cell of another language (`%%bash`) is blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatout.source.parsing import blank, is_python

# Cell magics whose body is Python run where it stands; of any other the body is something else.
_PYTHON_CELLS = re.compile("capture|debug|ipytest|[lm]?prun|memit|pypy|python3?|scalene|snakeviz|time(?:it)?")
_CELL_MAGIC = re.compile(r"(?:[ \t\f]*(?:\r\n|\r|\n))*%%([\w.-]*)")

_AUTOMAGIC = "pip|pip3|conda|mamba|cd|ls|cat|mkdir|rm|cp|mv|pwd"
_LINE_MAGIC = re.compile(rf"[ \t\f]*(?:(?P<sign>[%!?,;/])|(?:{_AUTOMAGIC})(?=[ \t]+[^ \t=(\[,:]|[ \t]*$))")
_TIMED = re.compile(
    r"[ \t\f]*(?P<magic>%(?:time|timeit|prun|lprun|memit|mprun)\b(?:[ \t]+-\w+(?:[ \t]+\d+)?)*[ \t]+)(?=\S)"
)
_ASSIGNED = re.compile(r"[ \t]*[\w.\[\]*][\w.\[\]*, \t]*=[ \t]*(?P<magic>[%!])")
_HELP = re.compile(r"[ \t\f]*[\w.*\[\]'\"]+\?\??[ \t]*$")

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")
# What can hold a line end inside one logical line, and what looks like it; each begins with its own character.
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\r\n]*)
      | (?P<triple>\"{3}|'{3})
      | (?P<quote>["'])
      | (?P<open>[(\[{])
      | (?P<close>[)\]}])
      | (?P<joined>\\(?:\r\n|\r|\n))
      | (?P<end>\r\n|\r|\n)""",
    re.VERBOSE,
)
# Runs of plain characters in one step: a long string costs as many steps as it has escapes and quotes.
_STRING_END = {
    quote: re.compile(rf"[^\\{quote}\r\n]*(?:\\(?:\r\n|[\s\S])[^\\{quote}\r\n]*)*{quote}?") for quote in "\"'"
}
_TRIPLE_END = {
    quote: re.compile(rf"[^\\{quote}]*(?:(?:\\[\s\S]|{quote}(?!{quote}{quote}))[^\\{quote}]*)*{quote * 3}")
    for quote in "\"'"
}


def as_python(cell: str) -> str | None:
    """`cell` as Python of the same length and the same lines; None where it is neither Python nor IPython."""
    magic = _CELL_MAGIC.match(cell)
    if magic and not _PYTHON_CELLS.fullmatch(magic.group(1)):
        return blank(cell)
    if is_python(cell):
        return cell
    for keep_timed in (True, False) if "%" in cell else (False,):
        python = "".join(_replaced(cell, keep_timed=keep_timed))
        if is_python(python):
            return python
    return None


def _replaced(cell: str, *, keep_timed: bool) -> Iterator[str]:
    at = 0
    while at < len(cell):
        match = _LINE.match(cell, at)
        assert match is not None
        line = match.group()
        if (new := _magic_line(line, keep_timed)) is None:
            end = _logical_line_end(cell, at)
            yield cell[at:end]
            at = end
            continue
        yield new
        at = match.end()
        while line.rstrip("\r\n").endswith("\\") and at < len(cell):  # a shell command over several lines
            match = _LINE.match(cell, at)
            assert match is not None
            line, at = match.group(), match.end()
            yield "#" + line[1:] if line.strip() else line


def _magic_line(line: str, keep_timed: bool) -> str | None:
    """The stand-in for a `line` of IPython's, None for one of Python."""
    if keep_timed and (timed := _TIMED.match(line)):
        start, end = timed.span("magic")
        return f"{line[:start]}...{' ' * (end - start - 4)};{line[end:]}"
    if (assigned := _ASSIGNED.match(line)) is not None:
        start = assigned.start("magic")
    elif _LINE_MAGIC.match(line) or _HELP.match(line.rstrip("\r\n")):
        start = len(line) - len(line.lstrip(" \t\f"))
    else:
        return None
    body = line.rstrip("\r\n")
    length = len(body) - start
    value = "..." if length >= 3 else "0"  # `%x` has no room for more
    rest = body[start + len(value) + 1 :]
    return f"{body[:start]}{value}{'#' if length > len(value) else ''}{rest}{line[len(body) :]}"


def _logical_line_end(text: str, at: int) -> int:
    """Where the line of Python that begins at `at` ends: past its line end, with brackets and strings closed."""
    depth = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        if token.lastgroup == "end":
            if depth <= 0:
                return at
        elif token.lastgroup == "open":
            depth += 1
        elif token.lastgroup == "close":
            depth -= 1
        elif token.lastgroup in ("triple", "quote"):
            ends = _TRIPLE_END if token.lastgroup == "triple" else _STRING_END
            end = ends[token.group()[0]].match(text, at)
            if end is None:
                return len(text)  # never closed
            at = end.end()
    return len(text)
