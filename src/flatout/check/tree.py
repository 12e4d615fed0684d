"""One walk over a syntax tree: every node's parent, and the nodes of each type in the order of the source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

NodeType = TypeVar("NodeType", bound=ast.AST)

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Operators and contexts are shared singletons without a place: nobody asks for their parents.
_LEAF_FIELDS = frozenset(
    {"ctx", "op", "ops", "type_comment", "type_ignores", "kind", "id", "attr", "arg", "names_only"}
)


def _child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    if issubclass(kind, ast.arguments):  # in source order, which `_fields` is not: defaults follow their argument
        return ("posonlyargs", "args", "defaults", "vararg", "kwonlyargs", "kw_defaults", "kwarg")
    if issubclass(kind, ast.Dict):
        return ("keys", "values")
    if issubclass(kind, ast.IfExp):
        return ("body", "test", "orelse")
    return tuple(name for name in kind._fields if name not in _LEAF_FIELDS)


class Tree:
    """A parsed module with ways up (`parent`) and across (`nodes`)."""

    def __init__(self, root: ast.Module) -> None:
        self.root = root
        self.parents: dict[ast.AST, ast.AST] = {}
        self.blocks: dict[ast.stmt, list[ast.stmt]] = {}  # the list of statements that each statement is in
        self._by_type: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._walk()

    def _walk(self) -> None:
        fields: dict[type[ast.AST], tuple[str, ...]] = {}
        parents, blocks, by_type = self.parents, self.blocks, self._by_type
        stack: list[ast.AST] = [self.root]
        while stack:
            node = stack.pop()
            kind = type(node)
            by_type[kind].append(node)
            names = fields.get(kind)
            if names is None:
                names = fields[kind] = _child_fields(kind)
            if not names:
                continue
            below: list[ast.AST] = []
            for name in names:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            below.append(item)
                            if isinstance(item, ast.stmt):
                                blocks[item] = value
                elif isinstance(value, ast.AST):
                    parents[value] = node
                    below.append(value)
            below.reverse()
            stack += below

    def nodes(self, *kinds: type[NodeType]) -> list[NodeType]:
        """All nodes of exactly these types, in source order for one type."""
        if len(kinds) == 1:
            return self._by_type.get(kinds[0], [])  # type: ignore[return-value]
        found = [node for kind in kinds for node in self._by_type.get(kind, ())]
        found.sort(key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]
        return found  # type: ignore[return-value]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds `node`; None for the module."""
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parent, grandparent, up to the module."""
        parents = self.parents
        above = parents.get(node)
        while above is not None:
            yield above
            above = parents.get(above)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that `node` is in (itself, if it is one)."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self.parents.get(here)
        assert here is not None
        return here

    def function(self, node: ast.AST) -> Function | None:
        """The innermost `def` whose body holds `node`; a decorator or default is outside of its own function."""
        below: ast.AST = node
        for above in self.ancestors(node):
            if isinstance(above, FUNCTIONS) and isinstance(below, ast.stmt):
                return above
            below = above
        return None

    def class_(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around `node`."""
        return next((above for above in self.ancestors(node) if isinstance(above, ast.ClassDef)), None)

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops whose body runs `node` again, innermost first, within its function and nested ones' outer loops."""
        found: list[Loop] = []
        below: ast.AST = node
        for above in self.ancestors(node):
            if isinstance(above, ast.While):
                found.append(above)  # its test runs each time, too
            elif isinstance(above, ast.For | ast.AsyncFor) and below in above.body:
                found.append(above)
            below = above
        return found

    def within(self, node: ast.AST, above: ast.AST) -> bool:
        """Whether `above` is `node` or one of its ancestors."""
        return node is above or any(ancestor is above for ancestor in self.ancestors(node))
