"""Comments that say "not here".

    Suppressions.of(text, kind) -> Suppressions | None       None: nothing in it looks like one
    suppressions.hide(rule, first_line, last_line) -> bool

`# flatout: ignore[FO101]` (or a rule's name, or the start of a code; without brackets: all), `# noqa: FO101`, bare `#
noqa`, on the finding's first line or the last of its statement; `# flatout: ignore-file[FO101]` anywhere for the whole
file. In Markdown and other text the comment may be HTML's.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from flatout.check.rule import Rule
from flatout.source.text import LINE_END

_LIKELY = re.compile(r"noqa|flatout:", re.IGNORECASE)
_OWN = re.compile(r"(?:#|<!--)[ \t]*flatout:[ \t]*(ignore-file|ignore)\b[ \t]*(?:\[([^\]]*)\])?")
# As flake8 and ruff read it: after a colon, codes apart by commas or spaces; without one, all.
_NOQA = re.compile(r"#[ \t]*noqa\b(?::[ \t]?([A-Z][0-9A-Z]+(?:[,\s]+[A-Z][0-9A-Z]+)*))?", re.IGNORECASE)

Selectors = tuple[str, ...] | None  # None: all rules


class Suppressions:
    """The comments of one text."""

    def __init__(self, text: str, *, is_python: bool) -> None:
        self._lines: dict[int, list[Selectors]] = {}
        self._file: list[Selectors] = []
        self._last_lines: dict[int, int] = {}  # of the statement that a line is part of
        for line, comment in self._comments(text) if is_python else _anything(text):
            self._read(line, comment)

    @classmethod
    def of(cls, text: str, *, is_python: bool) -> Suppressions | None:
        """The suppressions in `text`; None where nothing looks like one."""
        return cls(text, is_python=is_python) if _LIKELY.search(text) else None

    def hide(self, rule: Rule, first_line: int, last_line: int) -> bool:
        """Whether a finding of `rule` that stands on these lines is not to be told."""
        places = {first_line, last_line, self._last_lines.get(first_line, first_line)}
        found = [selectors for line in places for selectors in self._lines.get(line, ())]
        return any(_covers(selectors, rule) for selectors in (*self._file, *found))

    def _comments(self, text: str) -> Iterator[tuple[int, str]]:
        """The comments of Python with their lines; notes where statements end on the way."""
        lines = io.StringIO(LINE_END.sub("\n", text))
        comments: list[tuple[int, str]] = []
        start = 0
        try:
            for token in tokenize.generate_tokens(lines.readline):
                if token.type == tokenize.COMMENT:
                    comments.append((token.start[0], token.string))
                elif token.type == tokenize.NEWLINE:
                    for line in range(start, token.start[0]):
                        self._last_lines[line] = token.start[0]
                    start = 0
                elif not start and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                    start = token.start[0]
        except (tokenize.TokenError, SyntaxError):
            return _anything(text)  # what parses may still not tokenize; then a string may pass for a comment
        return iter(comments)

    def _read(self, line: int, comment: str) -> None:
        for match in _OWN.finditer(comment):
            selectors = None if match[2] is None else _split(match[2])
            if match[1] == "ignore-file":
                self._file.append(selectors)
            else:
                self._lines.setdefault(line, []).append(selectors)
        for match in _NOQA.finditer(comment):
            self._lines.setdefault(line, []).append(None if match[1] is None else _split(match[1]))


def _anything(text: str) -> Iterator[tuple[int, str]]:
    """Every line that may hold a comment."""
    return ((n, line) for n, line in enumerate(LINE_END.split(text), start=1) if _LIKELY.search(line))


def _split(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text.strip()) if word)


def _covers(selectors: Selectors, rule: Rule) -> bool:
    return selectors is None or any(
        word.lower() == rule.name or (word.upper().startswith("FO") and rule.code.startswith(word.upper()))
        for word in selectors
    )
