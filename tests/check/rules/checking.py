"""What the tests of rules share: a rule asked about a text."""

from __future__ import annotations

from textwrap import dedent

from flatout.check.module import Module, TorchVersion
from flatout.check.rule import Hit, Rule
from flatout.check.rules import all_rules
from flatout.source import SourceText, apply_edits


def rule(code: str) -> Rule:
    return next(rule for rule in all_rules() if rule.code == code)


def hits(code: str, source: str, torch: TorchVersion | None = None) -> list[Hit]:
    """What the rule says of `source` (dedented)."""
    text = dedent(source).lstrip("\n")
    assert any(word in text for word in rule(code).needs or ("",)), "the rule's `needs` would skip this file"
    return list(rule(code).find(Module.parse(SourceText(text), path="train.py", torch=torch)))


def lines(code: str, source: str, torch: TorchVersion | None = None) -> list[int]:
    """The lines that the rule finds something on."""
    return [hit.node.lineno for hit in hits(code, source, torch)]


def fixed(code: str, source: str, torch: TorchVersion | None = None) -> str:
    """`source` (dedented) after all fixes of the rule, safe or not. Fixing twice must be the same as once."""
    text = dedent(source).lstrip("\n")
    for _ in range(2):
        found = [hit.fix for hit in hits(code, text, torch) if hit.fix]
        before, text = text, apply_edits(text, [edit for fix in found for edit in fix.edits])
        compile(text, "train.py", "exec")
    assert text == before, "a second fix changed something"
    return text
