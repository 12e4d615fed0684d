"""FO208: a tensor that a layer keeps as a plain attribute: `.to()` does not move it and `state_dict()` misses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS, Function
from flatout.check.words import words

_OWN_MOVE = re.compile(r"def (_apply|to|cuda)\b")
# What is done with a tensor that may stay on the CPU, or that moves it.
_HARMLESS = frozenset(words("to cuda type_as tolist item numpy cpu size shape dtype device numel dim"))


def find(module: Module) -> Iterator[Hit]:
    for class_ in module.tree.nodes(ast.ClassDef):
        if not module.classes.is_layer(class_) or _OWN_MOVE.search(module.text.of(class_)):
            continue
        forward = next((item for item in class_.body if isinstance(item, FUNCTIONS) and item.name == "forward"), None)
        if forward is None:
            continue
        for name, values in module.classes.self_assignments(class_).items():
            value = values[0]
            if len(values) != 1 or value is None or not _is_kept_tensor(module, class_, value):
                continue
            use = _use(module, forward, name)
            if use is not None:
                yield _hit(module, name, value, use)


def _is_kept_tensor(module: Module, class_: ast.ClassDef, value: ast.expr) -> bool:
    """Whether `value` is a tensor on the CPU, with dimensions, that `__init__` makes."""
    function = module.tree.function(value)
    fact = module.fact(value)
    if function is None or function.name != "__init__" or module.tree.parent(function) is not class_:
        return False
    if not fact.is_tensor or not fact.on_cpu or not isinstance(value, ast.Call):
        return False
    if module.qualified(value.func) == "torch.nn.Parameter":
        return False
    return not _is_scalar(module, value)


def _is_scalar(module: Module, call: ast.Call) -> bool:
    """A tensor without dimensions works with tensors of any device."""
    name = module.qualified(call.func) or ""
    if name.rpartition(".")[2] in ("tensor", "as_tensor", "scalar_tensor"):
        return not (call.args and isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp))
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Tuple | ast.List) and not first.elts


def _use(module: Module, forward: Function, name: str) -> ast.Attribute | None:
    """Where `forward` computes with `self.name` as it is; None if any use moves it, or only indexes with it."""
    found: ast.Attribute | None = None
    for node in ast.walk(forward):
        if not isinstance(node, ast.Attribute) or node.attr != name or not _is_self(node.value):
            continue
        above: ast.AST | None = module.tree.parent(node)
        here: ast.AST = node
        while isinstance(above, ast.Subscript) and here is above.value:  # self.table[:n].to(x)
            here, above = above, module.tree.parent(above)
        if isinstance(above, ast.Attribute) and above.attr in _HARMLESS:
            return None
        if isinstance(above, ast.BinOp) or (isinstance(above, ast.Call) and _computes(module, above, here)):
            found = found or node
        elif isinstance(above, ast.Assign | ast.Subscript | ast.Return | ast.Call):
            return None  # under another name it may be moved
    return found


def _computes(module: Module, call: ast.Call, node: ast.AST) -> bool:
    name = module.qualified(call.func) or ""
    if node not in call.args:
        return False
    return name.startswith("torch.nn.functional.") or name in ("torch.matmul", "torch.mul", "torch.add", "torch.where")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _hit(module: Module, name: str, value: ast.expr, use: ast.Attribute) -> Hit:
    assert isinstance(value, ast.Call)
    flag = keyword(value, "requires_grad")
    if flag is not None and module.constant(flag) is True:
        return Hit(
            value,
            f"`self.{name}` requires a gradient and is no Parameter: `parameters()` misses it, and no optimizer "
            "trains it",
            f"Make it `nn.Parameter({module.text.short(value, 30)})`.",
        )
    return Hit(
        value,
        f"`self.{name}` is a plain attribute: `model.to(device)` leaves it on the CPU, and line {use.lineno} of "
        "`forward` raises on a GPU",
        f'Register it: `self.register_buffer("{name}", {module.text.short(value, 30)})`.',
    )


RULE = Rule("FO208", "tensor-not-a-buffer", "high", find, needs=("forward",), in_tests=True)
