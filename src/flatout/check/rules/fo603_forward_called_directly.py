"""FO603: `model.forward(x)`, which leaves out what calling the model does besides."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.fixes import replace
from flatout.check.hints import sounds_like
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Fix

# What rests on hooks, by what people write to get it.
_HOOKED = (
    (re.compile(r"(?<!parametrizations\.)\b(?:weight_norm|spectral_norm)\("), "the weight that a hook computes anew"),
    (re.compile(r"\bfully_shard\("), "the hooks that gather its sharded parameters"),
    (re.compile(r"\bprune\.\w+\("), "the hook that applies the pruning mask"),
)
_REGISTERED = re.compile(r"([\w.\[\]]+)\.register_(?:full_)?(?:forward|backward)_(?:pre_)?hook\(")


def find(module: Module) -> Iterator[Hit]:
    missed_by = _Missed(module)
    for call in module.methods("forward"):
        assert isinstance(call.func, ast.Attribute)
        model = call.func.value
        if not _is_model(module, model):
            continue
        name = ast.unparse(model)
        missed, severe = missed_by.of(name)
        if missed is None and module.region(call) is None and not _evaluates(module, call):
            continue
        yield Hit(
            call,
            f"`{name}.forward(...)` runs `{name}` without {missed or 'its hooks, which calling it runs'}",
            f"Call `{name}(...)`.",
            Fix(f"Call `{name}` itself", (replace(module, call.func, module.text.of(model)),), "unsafe"),
            severity="medium" if severe else None,
        )


def _is_model(module: Module, node: ast.expr) -> bool:
    """Whether `node` is a variable that holds a layer; a layer that calls its own parts so is left alone."""
    if not isinstance(node, ast.Name | ast.Attribute) or _kind(module, node) != "Module":
        return False
    if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
        return False
    class_ = module.tree.class_(node)
    if class_ is not None and module.classes.is_layer(class_):
        return False
    return not (isinstance(node, ast.Name) and node.id in ("self", "cls", "super"))


def _kind(module: Module, node: ast.expr) -> str | None:
    kind = module.fact(node).kind
    return "Module" if kind is None and sounds_like("Module", node) else kind


class _Missed:
    """What the file hangs on the calls of its models."""

    def __init__(self, module: Module) -> None:
        text = module.text.text
        self._compiled = {
            ast.unparse(call.func.value) for call in module.methods("compile") if isinstance(call.func, ast.Attribute)
        }
        self._general = next((what for pattern, what in _HOOKED if pattern.search(text)), None)
        # `model.layer[0].register_forward_hook(`: the owner, and each thing that it is a part of.
        self._hooked = {match[1] for match in _REGISTERED.finditer(text)}

    def of(self, name: str) -> tuple[str | None, bool]:
        """What calling `name.forward` leaves out, and whether that surely matters."""
        if name in self._compiled:
            return f"the compiled code that `{name}.compile()` made", True
        if self._general is not None:
            return self._general, True
        if any(owner == name or owner.startswith((f"{name}.", f"{name}[")) for owner in self._hooked):
            return "the hooks that it is given in this file", False
        return None, False


def _evaluates(module: Module, call: ast.Call) -> bool:
    loops = module.tree.loops(call)
    return any(found.loop in loops for found in module.evaluations.loops)


RULE = Rule("FO603", "forward-called-directly", "low", find, needs=(".forward(",))
