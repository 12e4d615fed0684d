"""The rules, one a file. A file `foNNN_name.py` here that has a `RULE` is a rule: nothing else registers it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from flatout.check.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    found = [import_module(f"{__name__}.{module.name}").RULE for module in iter_modules(__path__)]
    return tuple(sorted(found, key=lambda rule: rule.code))
