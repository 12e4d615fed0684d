"""Which names a scope binds, and which of the bindings can reach a use."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

from flatout.check.tree import COMPREHENSIONS, FUNCTIONS, Function, Tree

Scope = ast.Module | ast.ClassDef | Function | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
SCOPES = (ast.Module, ast.ClassDef, *FUNCTIONS, ast.Lambda, *COMPREHENSIONS)


FARTHEST = 64  # bindings looked at on each side of a use, so that a file of 50,000 assignments stays linear


class Binding(NamedTuple):
    """One place that gives a name its meaning.

    `value` is the expression that the name, or a part of it, comes from: the right side, the iterable of a `for`, the
    context of a `with`, an argument's default. `path` says which part: (1,) is the second element.
    """

    name: str
    kind: Literal["import", "function", "class", "argument", "assign", "augment", "loop", "with", "other"]
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int, ...] = ()


class Scopes:
    """The bindings of every scope of a module, read on first use."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._tables: dict[ast.AST, dict[str, list[Binding]]] = {}
        self._outer: dict[ast.AST, set[str]] = defaultdict(set)  # names declared global or nonlocal
        self._collect()

    def of(self, node: ast.AST) -> Scope:
        """The scope that `node` is evaluated in."""
        parents = self._tree.parents
        below, above = node, parents.get(node)
        while above is not None:
            if isinstance(above, SCOPES):
                if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
                    if isinstance(below, ast.stmt):
                        return above
                elif not (isinstance(above, ast.Lambda) and isinstance(below, ast.arguments)):
                    return above
            below, above = above, parents.get(above)
        return self._tree.root

    def outer(self, scope: Scope) -> Scope | None:
        """The scope around `scope` that its free names are looked up in: a function does not see its class's."""
        if isinstance(scope, ast.Module):
            return None
        above = self.of(scope)
        while isinstance(above, ast.ClassDef) and not isinstance(scope, COMPREHENSIONS):
            above = self.of(above)
        return above

    def bindings(self, scope: Scope, name: str) -> list[Binding]:
        """All bindings of `name` in `scope` itself."""
        return self._tables.get(scope, {}).get(name, [])

    def names(self, scope: Scope) -> dict[str, list[Binding]]:
        """The names that `scope` binds."""
        return self._tables.get(scope, {})

    def lookup(self, name: str, node: ast.AST) -> tuple[Scope, list[Binding]] | None:
        """The scope that `name` belongs to, seen from `node`, and its bindings there; None for a builtin."""
        scope: Scope | None = self.of(node)
        while scope is not None:
            if name not in self._outer.get(scope, ()):
                found = self.bindings(scope, name)
                if found:
                    return scope, found
            scope = self.outer(scope)
        return None

    @cached_property
    def _mentions(self) -> dict[str, list[ast.Name]]:
        found: defaultdict[str, list[ast.Name]] = defaultdict(list)
        for node in sorted(self._tree.nodes(ast.Name), key=_position):
            found[node.id].append(node)
        return found

    def mentions(self, name: str, line: int) -> Iterator[ast.Name]:
        """Every use of `name` behind `line`, in any scope, in source order."""
        nodes = self._mentions.get(name, [])
        return islice(nodes, bisect_right(nodes, line, key=lambda node: node.lineno), None)

    def uses(self, scope: Scope, name: str) -> list[ast.Name]:
        """Where a variable of `scope` is read, in source order; in the functions inside, too."""
        return [
            node
            for node in self._mentions.get(name, ())
            if isinstance(node.ctx, ast.Load) and (owner := self.lookup(name, node)) is not None and owner[0] is scope
        ]

    def reaching(self, name: str, node: ast.AST) -> list[Binding]:
        """The bindings of `name` that may be in force at `node`.

        Straight-line reasoning: the last binding before `node` that surely ran hides all earlier ones; later ones count
        only where a loop around both brings them back, and all count when seen from another scope.
        """
        found = self.lookup(name, node)
        if found is None:
            return []
        scope, bindings = found
        if isinstance(scope, COMPREHENSIONS) or len(bindings) == 1 or self._running(node) is not scope:
            return bindings
        here = bisect_left(bindings, _position(self._tree.statement(node)), key=_binding_position)
        reach: list[Binding] = []
        loops = self._tree.loops(node)
        for binding in reversed(bindings[max(0, here - FARTHEST) : here]):
            reach.append(binding)
            if self._surely_ran(binding, node):
                # In a loop around both it runs before `node` each time round.
                loops = [loop for loop in loops if not self._tree.within(binding.node, loop)]
                break
        if loops:
            later = bindings[here : here + FARTHEST]
            reach.extend(binding for binding in later if self._tree.within(binding.node, loops[-1]))
        return reach or bindings[:FARTHEST]

    def _running(self, node: ast.AST) -> Scope:
        """The scope that `node` runs in: a comprehension runs where it stands."""
        scope = self.of(node)
        while isinstance(scope, COMPREHENSIONS):
            scope = self.of(scope)
        return scope

    def _surely_ran(self, binding: Binding, node: ast.AST) -> bool:
        """Whether the block of the binding is one that `node` is in, too."""
        tree = self._tree
        place: ast.AST = binding.node
        if isinstance(place, ast.arg):
            return True
        statement = tree.statement(place)
        if binding.kind in ("loop", "with") and tree.within(node, statement):
            return True
        if binding.kind == "loop":
            return False  # a loop may run no round
        block = tree.blocks.get(statement)
        here: ast.AST | None = tree.statement(node)
        while here is not None:
            if isinstance(here, ast.stmt) and tree.blocks.get(here) is block:
                return True
            here = tree.parent(here)
        return False

    # --- collecting ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        tree = self._tree
        found: list[tuple[Scope, Binding]] = []
        for node in tree.nodes(ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found.append((self.of(node), Binding(name, "import", node, path=())))
        for node_from in tree.nodes(ast.ImportFrom):
            for alias in node_from.names:
                found.append((self.of(node_from), Binding(alias.asname or alias.name, "import", node_from)))
        functions: list[Function] = [*tree.nodes(ast.FunctionDef), *tree.nodes(ast.AsyncFunctionDef)]
        for function in functions:
            found.append((self.of(function), Binding(function.name, "function", function)))
            found.extend((function, binding) for binding in _arguments(function.args))
        for class_ in tree.nodes(ast.ClassDef):
            found.append((self.of(class_), Binding(class_.name, "class", class_)))
        for function_ in tree.nodes(ast.Lambda):
            found.extend((function_, binding) for binding in _arguments(function_.args))
        outer: list[ast.Global | ast.Nonlocal] = [*tree.nodes(ast.Global), *tree.nodes(ast.Nonlocal)]
        for names in outer:
            self._outer[self.of(names)].update(names.names)
        for name_node in tree.nodes(ast.Name):
            if not isinstance(name_node.ctx, ast.Load):
                found.append((self._owner(name_node), self._stored(name_node)))
        for handler in tree.nodes(ast.ExceptHandler):
            if handler.name:
                found.append((self.of(handler), Binding(handler.name, "other", handler)))
        for scope, binding in found:
            if binding.name in self._outer.get(scope, ()):
                scope = self._global_of(scope, binding.name)
            self._tables.setdefault(scope, {}).setdefault(binding.name, []).append(binding)
        for table in self._tables.values():
            for several in table.values():
                if len(several) > 1:
                    several.sort(key=_binding_position)

    def _owner(self, name: ast.Name) -> Scope:
        scope = self.of(name)
        if isinstance(scope, COMPREHENSIONS) and isinstance(self._tree.parent(name), ast.NamedExpr):
            while isinstance(scope, COMPREHENSIONS):
                scope = self.of(scope)
        return scope

    def _global_of(self, scope: Scope, name: str) -> Scope:
        above = self.outer(scope)
        while above is not None and not isinstance(above, ast.Module):
            if name in self._tables.get(above, {}):
                return above
            above = self.outer(above)
        return self._tree.root

    def _stored(self, name: ast.Name) -> Binding:
        """How `name` is bound: through tuples up to the statement that does it."""
        path: list[int] = []
        below: ast.AST = name
        above = self._tree.parent(name)
        while isinstance(above, ast.Tuple | ast.List | ast.Starred):
            if not isinstance(above, ast.Starred):
                path.insert(0, above.elts.index(below))  # type: ignore[arg-type]
            below, above = above, self._tree.parent(above)
        where = tuple(path)
        if isinstance(above, ast.Assign):
            return Binding(name.id, "assign", above, above.value, where)
        if isinstance(above, ast.AnnAssign):
            return Binding(name.id, "assign", above, above.value)
        if isinstance(above, ast.NamedExpr):
            return Binding(name.id, "assign", above, above.value)
        if isinstance(above, ast.AugAssign):
            return Binding(name.id, "augment", above, above.value)
        if isinstance(above, ast.For | ast.AsyncFor | ast.comprehension):
            return Binding(name.id, "loop", above if isinstance(above, ast.stmt) else name, above.iter, where)
        if isinstance(above, ast.withitem):
            return Binding(name.id, "with", self._tree.statement(above), above.context_expr, where)
        return Binding(name.id, "other", self._tree.statement(name))


def _arguments(arguments: ast.arguments) -> list[Binding]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    found = [
        Binding(arg.arg, "argument", arg, default)
        for arg, default in zip(
            (*plain, *arguments.kwonlyargs), (*defaults, *arguments.defaults, *arguments.kw_defaults)
        )
    ]
    return [*found, *(Binding(arg.arg, "other", arg) for arg in (arguments.vararg, arguments.kwarg) if arg)]


def _position(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _binding_position(binding: Binding) -> tuple[int, int]:
    return (0, 0) if isinstance(binding.node, ast.arg) else _position(binding.node)
