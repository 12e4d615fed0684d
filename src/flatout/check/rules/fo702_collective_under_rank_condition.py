"""FO702: a collective that only some ranks reach: they wait for the others for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.ranks import RankBranch, collective, holds_on_one, rank_branches
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import before
from flatout.check.tree import Function

_NEEDS = ("distributed", "dist.", "accelerator", "fabric")


def find(module: Module) -> Iterator[Hit]:
    collectives = {call: name for call in module.tree.nodes(ast.Call) if (name := collective(module, call))}
    if not collectives:
        return
    branches = {call: list(rank_branches(module, call)) for call in collectives}
    sides = {(name, branch.on_main) for call, name in collectives.items() for branch in branches[call]}
    asked = _Asked(module, collectives)
    for call, name in collectives.items():
        branch = branches[call][0] if branches[call] else None
        if branch is None:
            left = asked.left_early(call)
            if left is not None:
                yield _after_return(module, call, left)
        # A pair, `if rank != 0: barrier()` and `if rank == 0: barrier()`, meets.
        elif (name, not branch.on_main) not in sides and not asked.other_branch_joins(branch):
            yield _under(module, call, branch)
    yield from _called(module, asked, branches)


def _under(module: Module, call: ast.Call, branch: RankBranch) -> Hit:
    where = module.text.short(branch.statement.test)
    reached = f"where `{where}`" if branch.in_body else f"where `{where}` does not hold"
    return Hit(
        call,
        f"`{module.text.short(call)}` is reached only {reached}: it waits for ranks that never call it",
        "Call it on every rank: move it out of the `if`, or make the same call in the other branch.",
        evidence={"condition_line": branch.statement.lineno},
    )


def _after_return(module: Module, call: ast.Call, left: ast.If) -> Hit:
    return Hit(
        call,
        f"ranks where `{module.text.short(left.test)}` left in line {left.lineno}: `{module.text.short(call)}` waits "
        "for them",
        "Call it before that line, or let no rank leave before it.",
        evidence={"condition_line": left.lineno},
    )


class _Asked:
    """What is asked of each collective."""

    def __init__(self, module: Module, collectives: dict[ast.Call, str]) -> None:
        self.module = module
        self.collectives = collectives
        self.making = {module.tree.function(call) for call in collectives} - {None}
        self._exits = [item for item in module.tree.nodes(ast.If) if self._is_exit(item)]

    def joins(self, node: ast.AST) -> bool:
        """Whether `node` is a collective, or calls a function of this file that makes one."""
        return isinstance(node, ast.Call) and (
            node in self.collectives or self.module.functions.definition(node.func) in self.making
        )

    def other_branch_joins(self, branch: RankBranch) -> bool:
        """Whether those that take the other branch of the `if` make a collective, too.

        Where the branch returns, the other one is all that follows.
        """
        statement = branch.statement
        other = statement.orelse if branch.in_body else statement.body
        if any(self.joins(node) for item in other for node in ast.walk(item)):
            return True
        function, end = self.module.tree.function(statement), statement.end_lineno or 0
        if function is None or not branch.in_body or not isinstance(statement.body[-1], ast.Return | ast.Continue):
            return False
        return any(isinstance(node, ast.Call) and node.lineno > end and self.joins(node) for node in ast.walk(function))

    def _is_exit(self, item: ast.If) -> bool:
        """Whether it is an `if` on the rank whose body returns, without a collective."""
        return (
            not item.orelse
            and isinstance(item.body[-1], ast.Return)
            and holds_on_one(self.module, item.test) is not None
            and not any(isinstance(node, ast.Call) and node in self.collectives for node in ast.walk(item))
        )

    def left_early(self, call: ast.Call) -> ast.If | None:
        """The `if` on the rank before the call, in a block around it, at which some ranks return."""
        tree = self.module.tree
        for item in self._exits:
            if item.lineno < call.lineno and tree.function(item) is tree.function(call):
                block = tree.blocks.get(item)
                if any(
                    isinstance(above, ast.stmt) and tree.blocks.get(above) is block for above in tree.ancestors(call)
                ):
                    return item
        return None


def _called(module: Module, asked: _Asked, branches: dict[ast.Call, list[RankBranch]]) -> Iterator[Hit]:
    """Calls, under a condition on the rank, of a function of this module that makes a collective."""
    inside: dict[Function, ast.Call] = {}
    for call in sorted(branches, key=lambda call: (call.lineno, call.col_offset)):
        function = module.tree.function(call)
        # Its own `if`s may ask whether there are several ranks at all; those on the rank were dealt with.
        if function is not None and not branches[call] and asked.left_early(call) is None:
            inside.setdefault(function, call)
    for function, inner in inside.items():
        calls = module.functions.calls_of(function)
        found = {call: list(rank_branches(module, call)) for call in calls}
        for call in calls:
            branch = found[call][0] if found[call] else None
            if branch is None or any(other.on_main != branch.on_main for around in found.values() for other in around):
                continue
            if asked.other_branch_joins(branch) or not before(branch.statement, call):
                continue
            where = module.text.short(branch.statement.test)
            reached = f"where `{where}`" if branch.in_body else f"where `{where}` does not hold"
            yield Hit(
                call,
                f"`{module.text.short(call)}` runs only {reached}, and calls `{ast.unparse(inner.func)}` "
                f"(line {inner.lineno}), which waits for every rank",
                "Call it on every rank, or keep the collective out of it.",
                evidence={"condition_line": branch.statement.lineno, "collective_line": inner.lineno},
            )


RULE = Rule("FO702", "collective-under-rank-condition", "high", find, needs=_NEEDS, in_tests=True)
