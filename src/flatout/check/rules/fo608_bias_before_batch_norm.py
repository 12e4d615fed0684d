"""FO608: the bias of a layer whose output goes straight into batch normalization, which takes it out again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from flatout.check.devices import argument
from flatout.check.fixes import add_argument, replace
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS, Function
from flatout.source import Fix

# Layers with a bias for each output channel, and where `bias` stands among their arguments.
_BIAS_POSITIONS = {
    **{f"torch.nn.Conv{n}d": 7 for n in (1, 2, 3)},
    **{f"torch.nn.ConvTranspose{n}d": 7 for n in (1, 2, 3)},
    "torch.nn.Linear": 2,
}
_NORMS = frozenset({"torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d", "torch.nn.SyncBatchNorm"})


def find(module: Module) -> Iterator[Hit]:
    told: set[ast.Call] = set()
    for layer, norm in (*_in_sequences(module), *_in_forward(module)):
        if layer in told or not _has_bias(module, layer):
            continue
        told.add(layer)
        name = re.sub(r"^torch\.nn\.", "nn.", module.qualified(norm.func) or "")
        yield Hit(
            layer,
            f"the bias of `{module.text.short(layer, 44)}` has no effect: `{name}` (line {norm.lineno}) subtracts the "
            "mean of its input",
            "Say `bias=False`: a parameter less, and no gradient summed for it.",
            _fix(module, layer),
            evidence={"norm_line": norm.lineno},
        )


def _fix(module: Module, layer: ast.Call) -> Fix | None:
    value = argument(layer, _BIAS_POSITIONS[module.qualified(layer.func) or ""], "bias")
    try:
        edit = replace(module, value, "False") if value is not None else add_argument(module, layer, "bias=False")
    except ValueError:
        return None
    return Fix("Add `bias=False`", (edit,), "unsafe")


def _has_bias(module: Module, layer: ast.Call) -> bool:
    name = module.qualified(layer.func) or ""
    if any(item.arg is None for item in layer.keywords) or any(isinstance(item, ast.Starred) for item in layer.args):
        return False
    value = argument(layer, _BIAS_POSITIONS[name], "bias")
    return value is None or (isinstance(value, ast.Constant) and value.value is True)


def _is_pair(module: Module, first: ast.expr | None, second: ast.expr | None) -> bool:
    return (
        isinstance(first, ast.Call)
        and isinstance(second, ast.Call)
        and module.qualified(first.func) in _BIAS_POSITIONS
        and module.qualified(second.func) in _NORMS
    )


def _in_sequences(module: Module) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Neighbours in `nn.Sequential(...)`, or in a list that one is made of."""
    rows: list[list[ast.expr]] = [call.args for call in module.calls("torch.nn.Sequential")]
    starred = {
        (module.tree.function(call), item.value.id)
        for call in module.calls("torch.nn.Sequential")
        for item in call.args
        if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name)
    }
    for node in module.tree.nodes(ast.List):
        if _becomes_sequence(module, node, starred):
            rows.append(node.elts)
    for row in rows:
        for first, second in pairwise(row):
            if _is_pair(module, first, second):
                yield first, second  # type: ignore[misc]


def _becomes_sequence(module: Module, node: ast.List, starred: set[tuple[Function | None, str]]) -> bool:
    """`nn.Sequential(*[...])`, or `layers = [...]`, `layers += [...]` and `nn.Sequential(*layers)` in one function."""
    above = module.tree.parent(node)
    if isinstance(above, ast.Starred):
        call = module.tree.parent(above)
        return isinstance(call, ast.Call) and module.qualified(call.func) == "torch.nn.Sequential"
    target = (
        above.targets[0]
        if isinstance(above, ast.Assign)
        else above.target
        if isinstance(above, ast.AugAssign)
        else None
    )
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute) and above.func.attr == "extend":
        target = above.func.value
    if not isinstance(target, ast.Name):
        return False
    return (module.tree.function(node), target.id) in starred


def _in_forward(module: Module) -> Iterator[tuple[ast.Call, ast.Call]]:
    """`self.bn(self.conv(x))`, or `x = self.conv(x)` and `x = self.bn(x)` in the next line."""
    for call in module.tree.nodes(ast.Call):
        norm = _layer_called(module, call)
        if norm is None or module.qualified(norm.func) not in _NORMS or len(call.args) != 1:
            continue
        inner = call.args[0]
        if isinstance(inner, ast.Name):
            inner = _line_before(module, call, inner) or inner
        layer = _layer_called(module, inner)
        if layer is not None and _is_pair(module, layer, norm) and _called_once(module, inner):
            yield layer, norm


def _layer_called(module: Module, node: ast.expr) -> ast.Call | None:
    """What made the layer that is called: the value of `self.conv`, which is set once."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    origin = module.origin(node.func)
    return origin if isinstance(origin, ast.Call) else None


def _line_before(module: Module, call: ast.Call, name: ast.Name) -> ast.expr | None:
    statement = module.tree.statement(call)
    block = module.tree.blocks.get(statement, [])
    index = next((number for number, item in enumerate(block) if item is statement), 0)
    before = block[index - 1] if index else None
    if isinstance(before, ast.Assign) and len(before.targets) == 1 and ast.unparse(before.targets[0]) == name.id:
        uses = sum(isinstance(item, ast.Name) and item.id == name.id for item in ast.walk(statement))
        stored = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name.id
        return before.value if stored and uses == 2 else None  # nobody else sees the layer's output
    return None


def _called_once(module: Module, inner: ast.expr) -> bool:
    """Whether the class calls the layer nowhere else, so that all its outputs are normalized."""
    assert isinstance(inner, ast.Call)
    class_ = module.tree.class_(inner)
    if class_ is None:
        return False
    name = ast.unparse(inner.func)
    forward = [item for item in class_.body if isinstance(item, FUNCTIONS) and item.name != "__init__"]
    found = [
        node
        for item in forward
        for node in ast.walk(item)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == name
    ]
    return len(found) == 1


RULE = Rule("FO608", "bias-before-batch-norm", "low", find, needs=("BatchNorm",))
