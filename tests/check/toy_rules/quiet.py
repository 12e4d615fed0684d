from __future__ import annotations

from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Span


def find(module: Module) -> Iterator[Hit]:
    """The word `quiet`; only where it is selected."""
    start = module.text.text.index("quiet")
    yield Hit(Span(start, start + 5), "quiet", "")


RULE = Rule("FO201", "toy-quiet", "info", find, needs=("quiet",), default=False)
