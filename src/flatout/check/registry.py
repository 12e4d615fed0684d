"""The rules there are, and how people name them.

all_rules() -> tuple[Rule, ...]     by code
find_rule("fo101") -> Rule          by code or name
matching("FO1") -> frozenset[str]   the codes that a selector stands for
"""

from __future__ import annotations

import importlib

from flatout.check.rule import Rule
from flatout.errors import UsageError

PACKAGE = "flatout.check.rules"  # a helper process is told of another


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    rules: tuple[Rule, ...] = importlib.import_module(PACKAGE).all_rules()
    return rules


def find_rule(text: str) -> Rule:
    """The rule of that code or name, in any case. Raises UsageError, with the nearest names."""
    wanted = text.strip().lower()
    for rule in all_rules():
        if wanted in (rule.code.lower(), rule.name):
            return rule
    from difflib import get_close_matches

    words = [word for rule in all_rules() for word in (rule.code.lower(), rule.name)]
    near = [word.upper() if word[2:].isdigit() else word for word in get_close_matches(wanted, words, 3)]
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise UsageError(f"there is no rule {text!r}{hint} (flatout rule --all lists them)")


def matching(selector: str) -> frozenset[str]:
    """The codes that `selector` stands for: `ALL`, the start of a code (`FO1`), a code or a rule's name; maybe none."""
    wanted = selector.strip()
    upper, lower = wanted.upper(), wanted.lower()
    if upper == "ALL":
        return frozenset(rule.code for rule in all_rules())
    if not upper.startswith("FO"):
        return frozenset(rule.code for rule in all_rules() if rule.name == lower)
    return frozenset(rule.code for rule in all_rules() if rule.code.startswith(upper) or rule.name == lower)
