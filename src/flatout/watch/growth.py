"""Which names grow, from several censuses: by how much a step, and at which line of the script."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import NamedTuple

from flatout.recording.schema import Place
from flatout.watch.census import Held, Holder

FEWEST = 3
"""Censuses: two may differ by chance."""

_EVEN_RATIO = 2.0
"""Growth a step between two censuses may be so many times that between others; what settles down does not grow."""

_ADDING = frozenset({"append", "extend", "add", "update", "insert", "appendleft", "setdefault"})


class Growth(NamedTuple):
    """What a name holds more of with every step.

    `rebound`: the name gets a new value each time, and nothing is added to it.
    """

    holder: Holder
    bytes_per_step: float
    tensors_per_step: float
    nodes_per_step: float
    place: Place | None
    rebound: bool


def growths(censuses: list[tuple[int, dict[Holder, Held]]]) -> list[Growth]:
    """The names that grew between all of the censuses, each given with its step."""
    if len(censuses) < FEWEST:
        return []
    found = []
    for holder in censuses[-1][1]:
        points = [(step, held[holder]) for step, held in censuses if holder in held]
        if len(points) < FEWEST or points[-1][0] != censuses[-1][0]:
            continue
        size_bytes, tensors, nodes = (_rate([(step, held[column]) for step, held in points]) for column in range(3))
        if nodes > 0 or size_bytes > 0:
            line, rebound = line_of(holder)
            found.append(Growth(holder, size_bytes, tensors, nodes, line, rebound))
    return found


def _rate(points: list[tuple[int, int]]) -> float:
    """Growth a step where it is about even all the way, else 0."""
    rates = [(after - before) / (later - earlier) for (earlier, before), (later, after) in pairwise(points)]
    if min(rates) <= 0 or max(rates) > _EVEN_RATIO * min(rates):
        return 0.0
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def line_of(holder: Holder) -> tuple[Place | None, bool]:
    """The line that adds to the name, or gives it a new value (then True beside it)."""
    names = holder.name.split(".")
    target = f"self.{names[1]}" if holder.owner is not None else names[0]
    file = holder.file
    if holder.owner is not None:
        code = next((m.__code__ for m in vars(holder.owner).values() if hasattr(m, "__code__")), None)
        file = code.co_filename if code is not None else file
    try:
        with open(file, encoding="utf-8") as source:
            tree: ast.AST = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return None, False
    within = holder.owner.__name__ if holder.owner is not None else holder.function
    scope = _scope(tree, within)
    candidates = [(rank, node.lineno) for node in ast.walk(scope) if (rank := _rank(node, target))]  # type: ignore[attr-defined]
    candidates += [(1, line) for line in _carried(scope, target)]
    if not candidates:
        return None, False
    rank, line = max(candidates, key=lambda one: (one[0], -one[1]))
    return Place(file, line, within), rank == 1


def _scope(tree: ast.AST, within: str) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == within:
            return node
    return tree


def _rank(node: ast.AST, target: str) -> int:
    """3: adds to the name; 2: puts something under a key of it; 0: neither."""
    if isinstance(node, ast.AugAssign) and _text(node.target) == target:
        return 3
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
        return 3 if _text(node.func.value).split("[")[0] == target else 0
    if isinstance(node, ast.Assign):
        if any(isinstance(one, ast.Subscript) and _text(one.value) == target for one in node.targets):
            return 2
        if any(_text(one) == target for one in node.targets) and isinstance(node.value, ast.BinOp):
            return 3 if any(_text(part) == target for part in ast.walk(node.value)) else 0
    return 0


def _carried(scope: ast.AST, target: str) -> list[int]:
    """Lines in loops that give the name a new value, where the old one was used in the loop before."""
    lines = []
    for loop in ast.walk(scope):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        nodes = list(ast.walk(loop))
        read = [node.lineno for node in nodes if _text(node) == target and isinstance(_context(node), ast.Load)]  # type: ignore[attr-defined]
        for node in nodes:
            if isinstance(node, ast.Assign) and any(_text(one) == target for one in _targets(node)):
                end = node.end_lineno or node.lineno
                if any(line <= end for line in read):
                    lines.append(node.lineno)
    return lines


def _targets(node: ast.Assign) -> list[ast.expr]:
    return [part for one in node.targets for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])]


def _context(node: ast.AST) -> ast.expr_context | None:
    return getattr(node, "ctx", None)


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else ""
