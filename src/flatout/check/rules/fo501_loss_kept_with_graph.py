"""FO501: a loss, or another result of the step, is summed or collected together with the graph that computed it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import insert_after, replace
from flatout.check.keeping import Kept, kept_values, outlives, root
from flatout.check.losses import loaded
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Fix


def find(module: Module) -> Iterator[Hit]:
    if not module.losses.backwards:
        return
    for kept in sorted(kept_values(module), key=lambda kept: kept.node.lineno):
        region = module.region(kept.node)
        if region is None or region.kind == "forward" or not module.fact(kept.value).has_graph:
            continue
        if module.grad_is_off(kept.node) or not _stays(module, kept):
            continue
        yield _hit(module, kept)


def _stays(module: Module, kept: Kept) -> bool:
    """Whether the graph is surely kept beyond the step, and for nothing: no backward pass goes through the place."""
    region = module.region(kept.node)
    name = root(kept.place)
    if region is None or name is None:
        return False
    if not _in_attribute(kept.place) and module.losses.flows_on(name.id, kept.node):
        return False
    if region.loop is None and isinstance(kept.place, ast.Name):
        return False  # a variable of a function that is called each step ends with the call
    if not outlives(module, kept.place, region.node):
        return False
    leaf = _leaf(module, kept.value)
    if leaf is not None and module.losses.is_backpropagated(leaf):
        return True
    # Another result of the step: sure only for a plain list or sum that nothing in the loop reads again.
    return region.loop is not None and isinstance(kept.place, ast.Name) and not _read_in(module, kept, region.loop)


def _in_attribute(place: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) for node in ast.walk(place))


def _leaf(module: Module, value: ast.expr) -> ast.Name | None:
    """The one variable with a graph in `value`."""
    names = [name for name in loaded(value) if module.fact(name).has_graph]
    return names[0] if len(names) == 1 else None


def _read_in(module: Module, kept: Kept, loop: ast.stmt) -> bool:
    assert isinstance(kept.place, ast.Name)
    return any(
        name.id == kept.place.id and not module.tree.within(name, kept.node) and _is_value(module, name)
        for statement in (loop, *_statements_after(module, loop))
        for name in loaded(statement)
    )


def _is_value(module: Module, name: ast.Name) -> bool:
    """Whether reading `name` here could lead to a backward pass: not in a message, a length, a plain return."""
    for above in module.tree.ancestors(name):
        if isinstance(above, ast.JoinedStr | ast.Return):
            return False
        if (
            isinstance(above, ast.Call)
            and isinstance(above.func, ast.Name)
            and above.func.id in ("len", "print", "float")
        ):
            return False
        if isinstance(above, ast.Attribute) and above.attr in ("item", "detach", "cpu"):
            return False
        if isinstance(above, ast.stmt):
            break
    return True


def _statements_after(module: Module, loop: ast.stmt) -> list[ast.stmt]:
    """What follows the loop in its function and could run backward through what it kept; nothing if nothing does."""
    function = module.tree.function(loop)
    later = [
        found.call
        for found in module.losses.backwards
        if module.tree.function(found.call) is function and found.call.lineno > (loop.end_lineno or 0)
    ]
    return [module.tree.statement(call) for call in later]


_WHAT = {
    "sum": "`{place}` sums `{value}` with its graph: the graph of every step stays in memory",
    "list": "`{place}` keeps `{value}` with its graph: the graph of every step stays in memory",
    "meter": "`{place}` sums `{value}` with its graph: the graph of every step stays in memory",
}


def _hit(module: Module, kept: Kept) -> Hit:
    value, place = ast.unparse(kept.value), ast.unparse(kept.place)
    leaf = _leaf(module, kept.value)
    cut = f"{leaf.id if leaf else value}.detach()"
    return Hit(
        kept.node,
        _WHAT[kept.how].format(place=place, value=value),
        f"Detach it: `{cut}`. The numbers stay the same, and unlike `.item()` it does not make the host wait.",
        _fix(module, kept.value, leaf),
    )


def _fix(module: Module, value: ast.expr, leaf: ast.Name | None) -> Fix | None:
    if leaf is not None:
        # `loss * n` is detached at the loss; a method call, `loss.mean()`, where it ends.
        at = leaf if isinstance(value, ast.BinOp) and leaf in (value.left, value.right) else None
        if at is not None or leaf is value:
            return Fix(f"Detach `{leaf.id}`", (insert_after(module, at or leaf, ".detach()"),))
    if isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return Fix("Detach the value", (insert_after(module, value, ".detach()"),))
    return Fix("Detach the value", (replace(module, value, f"({module.text.of(value)}).detach()"),))


RULE = Rule("FO501", "loss-kept-with-graph", "medium", find, needs=("backward",))
