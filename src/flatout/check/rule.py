"""What a rule is, and what it yields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flatout.findings import Severity
from flatout.source import Fix, SourceText, Span

if TYPE_CHECKING:
    from flatout.check.module import Module


class Hit(NamedTuple):
    """A mistake in one module, before it has a file name: the node or the piece of text it is at, and what to say."""

    node: ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg | Span
    message: str
    remedy: str
    fix: Fix | None = None
    evidence: Mapping[str, Any] = MappingProxyType({})
    severity: Severity | None = None  # where this hit weighs other than its rule usually does


class TextFile(NamedTuple):
    """What a rule with `reads="text"` is given: a requirements file, a Dockerfile, YAML, TOML, the whole of a Markdown
    page, the code of a notebook. Its hits are at a Span of `text`."""

    text: SourceText
    path: str
    torch: tuple[int, int] | None  # the oldest PyTorch that the project admits; None: not known


@dataclass(frozen=True)
class Rule:
    """One kind of mistake: its code (shared with `explain`), its name, and how it is found.

    `needs`: words of which at least one stands in every file that the rule can find something in; a file without any is
    not given to the rule. `in_tests`: also asked of test files, which may be slow but not wrong. `reads`: Python
    source, or the text of project files.
    """

    code: str
    name: str
    severity: Severity
    find: Callable[[Module], Iterator[Hit]] | Callable[[TextFile], Iterator[Hit]] = field(repr=False)
    needs: tuple[str, ...] = ()
    in_tests: bool = False
    default: bool = True
    reads: Literal["python", "text"] = "python"
