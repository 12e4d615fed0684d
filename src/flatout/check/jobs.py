"""What is to be done with one file, and the rules that it takes.

Job(path, shown, kind, is_test, torch, rules, unfixed)
rule_set(codes, in_tests).concern(data, kind) -> bool
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec

from flatout.check.registry import all_rules
from flatout.check.rule import Rule
from flatout.check.versions import TorchVersion
from flatout.source import Kind


class Job(msgspec.Struct, frozen=True):
    """What to do with one file: what it is, and the codes of the rules to ask."""

    path: str
    shown: str
    kind: Kind
    is_test: bool
    torch: TorchVersion | None
    rules: tuple[str, ...]
    unfixed: tuple[str, ...] = ()  # of which no fix is offered


class RuleSet:
    """The rules of a job, by what they read, and the words by which a file is known to concern them."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        every = tuple(rules)
        self.python = tuple(rule for rule in every if rule.reads == "python")
        self.text = tuple(rule for rule in every if rule.reads == "text")
        self._python_words, self._text_words = _words(self.python), _words(self.text)

    def concern(self, data: bytes, kind: Kind) -> bool:
        """Whether some rule may find something in a file of these bytes, or something is wrong with them."""
        words: list[tuple[bytes, ...]] = []
        if self.python and kind != "text":
            words.append(self._python_words)
        if self.text and kind != "python":
            words.append(self._text_words)
        if any(not some or any(word in data for word in some) for some in words):
            return True
        # What is not plain UTF-8 text is read all the same, to say so.
        return b"\0" in data or not _is_utf8(data)


def _words(rules: tuple[Rule, ...]) -> tuple[bytes, ...]:
    """The words of which one stands in each file that concerns `rules`; none where any file may."""
    if not all(rule.needs for rule in rules):
        return ()
    return tuple(sorted({word.encode() for rule in rules for word in rule.needs}))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@cache
def rule_set(codes: tuple[str, ...], in_tests: bool) -> RuleSet:
    """The rules of these codes; for a test file those that are meant for tests too."""
    wanted = frozenset(codes)
    return RuleSet(rule for rule in all_rules() if rule.code in wanted and (rule.in_tests or not in_tests))
