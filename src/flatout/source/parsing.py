"""Whether a piece of text is Python."""

from __future__ import annotations

import ast
import re
import warnings

_BLACK = re.compile(r"[^\r\n]")


def is_python(text: str) -> bool:
    """Whether the Python that runs this parses `text`; its warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        # ValueError: NUL or a lone surrogate. The other two: nested too deeply for the parser.
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def blank(text: str) -> str:
    """Spaces in place of `text`, its line ends kept: same length, same lines."""
    return _BLACK.sub(" ", text)
