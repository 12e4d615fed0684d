"""What a rule is, and what it yields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from flatout.findings import Severity
from flatout.source import Fix

if TYPE_CHECKING:
    from flatout.check.module import Module


class Hit(NamedTuple):
    """A mistake in one module, before it has a file name: the node it is at, and what to say."""

    node: ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg
    message: str
    remedy: str
    fix: Fix | None = None
    evidence: Mapping[str, Any] = MappingProxyType({})
    severity: Severity | None = None  # where this hit weighs other than its rule usually does


@dataclass(frozen=True)
class Rule:
    """One kind of mistake: its code (shared with `explain`), its name, and how it is found.

    `needs`: words of which at least one stands in every file that the rule can find something in; a file without any is
    not given to the rule. `in_tests`: also asked of test files, which may be slow but not wrong.
    """

    code: str
    name: str
    severity: Severity
    find: Callable[[Module], Iterator[Hit]] = field(repr=False)
    needs: tuple[str, ...] = ()
    in_tests: bool = False
    default: bool = True
