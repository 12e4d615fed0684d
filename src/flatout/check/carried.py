"""State that a training loop hands from one round to the next together with its graph: `out, hidden = rnn(x, "
"hidden)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flatout.check.module import Module


class Carried(NamedTuple):
    """The statement, and the variable that it takes from the last round and sets for the next.

    `retained`: backward is told to keep the graph, without which the second round would raise.
    """

    node: ast.Assign
    name: str
    retained: bool


def carried_state(module: Module) -> Iterator[Carried]:
    """What is surely carried: nothing else in the loop sets the variable, so nothing can cut its graph."""
    tree = module.tree
    for node in tree.nodes(ast.Assign):
        if not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        region = module.region(node)
        if region is None or region.loop is None or tree.loops(node)[0] is not region.loop or module.grad_is_off(node):
            continue
        given = {item.id for item in _arguments(node.value)}
        set_ = {item.id for item in ast.walk(node.targets[0]) if isinstance(item, ast.Name)}
        if not given & set_ or not _runs_layer(module, node.value):
            continue
        backwards = [b for b in module.losses.in_loop(region.loop) if tree.loops(b.call)[0] is region.loop]
        retained = any("retain_graph" in ast.unparse(found.call) for found in backwards)
        if not backwards or not (retained or _surely_keeps_graph(module, node.value)):
            continue
        for name in sorted(given & set_):
            found = module.scopes.lookup(name, node)
            inside = [binding for binding in found[1] if tree.within(binding.node, region.loop)] if found else []
            if all(binding.node is node for binding in inside) and not _changed_in_place(module, name, region.loop):
                yield Carried(node, name, retained)


def carried_in_layers(module: Module) -> Iterator[tuple[ast.Assign, str]]:
    """The same in a layer: `out, self.hidden = self.rnn(x, self.hidden)`, where the class never cuts the graph."""
    for node in module.tree.nodes(ast.Assign):
        class_ = module.tree.class_(node)
        if class_ is None or not isinstance(node.value, ast.Call) or not module.classes.is_layer(class_):
            continue
        if not _runs_layer(module, node.value):
            continue
        given = {ast.unparse(item) for item in ast.walk(node.value) if isinstance(item, ast.Attribute)}
        for target in ast.walk(node.targets[0]):
            if not isinstance(target, ast.Attribute) or not isinstance(target.ctx, ast.Store):
                continue
            name = ast.unparse(target)
            written = [other for other in module.tree.nodes(ast.Attribute) if other.attr == target.attr]
            stores = [other for other in written if isinstance(other.ctx, ast.Store) and other is not target]
            if name in given and all(_in_init(module, other) for other in stores) and not _cuts(module, class_):
                yield node, name


def _in_init(module: Module, node: ast.AST) -> bool:
    function = module.tree.function(node)
    return function is not None and function.name == "__init__"


def _cuts(module: Module, class_: ast.ClassDef) -> bool:
    text = module.text.of(class_)
    return "detach" in text or ".data" in text


def _arguments(call: ast.Call) -> list[ast.Name]:
    """The plain variables that a call is given, also in a tuple: `lstm(x, (h, c))`."""
    values = [*call.args, *(item.value for item in call.keywords)]
    for value in list(values):
        if isinstance(value, ast.Tuple):
            values += value.elts
    return [value for value in values if isinstance(value, ast.Name)]


def _runs_layer(module: Module, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    last = ast.unparse(call.func).rpartition(".")[2].lower()
    return module.fact(call.func).kind == "Module" or last in ("rnn", "lstm", "gru", "cell", "rnn_cell", "lstm_cell")


def _surely_keeps_graph(module: Module, call: ast.Call) -> bool:
    """Whether the layer is known not to cut the graph itself: PyTorch's own, or a class here that never detaches."""
    name = module.fact(call.func).class_name or ""
    if name.startswith("torch.nn."):
        return name.count(".") == 2 and "Parallel" not in name
    local = [class_ for class_ in module.tree.nodes(ast.ClassDef) if class_.name == name]
    return bool(local) and not any(_cuts(module, class_) for class_ in local)


def _changed_in_place(module: Module, name: str, loop: ast.stmt) -> bool:
    """`hidden.detach_()`, or a call that might do it."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "detach_" and ast.unparse(node.value) == name
        for node in ast.walk(loop)
    )
