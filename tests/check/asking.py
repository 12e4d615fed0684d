"""What the tests of the engine share: a module from text, and the expression that a mark points at."""

from __future__ import annotations

import ast
from textwrap import dedent

from flatout.check.fact import Fact
from flatout.check.module import Module
from flatout.source import SourceText


def module(source: str) -> Module:
    return Module.parse(SourceText(dedent(source).lstrip("\n")), path="train.py")


def probed(source: str) -> Fact:
    """What is known of the argument of the one call `probe(...)` in `source`."""
    return probed_all(source)[0]


def probed_all(source: str) -> list[Fact]:
    """What is known of the argument of each `probe(...)`."""
    parsed = module(source)
    return [parsed.fact(call.args[0]) for call in probes(parsed)]


def probes(parsed: Module) -> list[ast.Call]:
    calls = parsed.tree.nodes(ast.Call)
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "probe"]
