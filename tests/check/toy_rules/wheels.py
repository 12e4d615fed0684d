from __future__ import annotations

import re
from collections.abc import Iterator

from flatout.check.rule import Hit, Rule, TextFile
from flatout.source import Edit, Fix, Span


def find(file: TextFile) -> Iterator[Hit]:
    """Wheel index pages of a CUDA that is gone, in any text."""
    for match in re.finditer(r"whl/(cu92)", file.text.text):
        span = Span(*match.span(1))
        yield Hit(span, "no wheels for cu92", "take a newer index", Fix("Write `cu126`", (Edit(*span, "cu126"),)))


RULE = Rule("FO805", "toy-wheels", "medium", find, needs=("whl/",), reads="text")
