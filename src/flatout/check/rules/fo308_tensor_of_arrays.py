"""FO308: `torch.tensor` of a list of NumPy arrays, which it reads number by number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import insert_after
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import OLD_CONSTRUCTORS
from flatout.check.tree import FUNCTIONS
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls("torch.tensor", "torch.as_tensor", *sorted(OLD_CONSTRUCTORS)):
        if not call.args:
            continue
        data = call.args[0]
        if not _holds_arrays(module, data) and not _takes_arrays_of_samples(module, call, data):
            continue
        yield Hit(
            call,
            f"`{module.text.short(call)}` reads a list of NumPy arrays number by number",
            f"Join them first: `np.array({module.text.short(data, 30)})`.",
            _fix(module, data),
        )


def _holds_arrays(module: Module, data: ast.expr) -> bool:
    fact = module.fact(data)
    if fact.kind not in ("list", "tuple"):
        return False
    held = [fact.element] if fact.element is not None else list(fact.items or ())
    return bool(held) and all(item.kind == "ndarray" for item in held)


def _takes_arrays_of_samples(module: Module, call: ast.Call, data: ast.expr) -> bool:
    """`[sample["x"] for sample in samples]` in a collate function, where the dataset's samples hold an array there."""
    if not isinstance(data, ast.ListComp) or not isinstance(data.elt, ast.Subscript) or len(data.generators) != 1:
        return False
    key, target = data.elt.slice, data.generators[0].target
    if not isinstance(key, ast.Constant) or not isinstance(target, ast.Name):
        return False
    if not isinstance(data.elt.value, ast.Name) or data.elt.value.id != target.id:
        return False
    function = module.tree.function(call)
    for loader in module.loaders.all:
        class_ = module.loaders.dataset_class(loader)
        if class_ is None or function not in module.loaders.collate_functions(loader):
            continue
        get = next((item for item in class_.body if isinstance(item, FUNCTIONS) and item.name == "__getitem__"), None)
        for value in module.functions.returns(get) if get is not None else []:
            if any(_is_array(module, part) for part in _parts(value, key.value)):
                return True
    return False


def _parts(sample: ast.expr, key: object) -> Iterator[ast.expr]:
    """What a sample holds under a key, or at a number."""
    if isinstance(sample, ast.Dict):
        for name, value in zip(sample.keys, sample.values):
            if isinstance(name, ast.Constant) and name.value == key:
                yield value
    elif isinstance(sample, ast.Tuple) and isinstance(key, int) and 0 <= key < len(sample.elts):
        yield sample.elts[key]


def _is_array(module: Module, value: ast.expr) -> bool:
    """Whether an expression surely gives a NumPy array: `.astype(...)` or NumPy's own, and arithmetic."""
    value = module.origin(value)
    if isinstance(value, ast.BinOp):
        return _is_array(module, value.left) or _is_array(module, value.right)
    if not isinstance(value, ast.Call):
        return False
    name = module.qualified(value.func) or ""
    made = name in ("numpy.array", "numpy.asarray", "numpy.stack", "numpy.concatenate", "numpy.load", "numpy.zeros")
    return made or (isinstance(value.func, ast.Attribute) and value.func.attr == "astype")


def _fix(module: Module, data: ast.expr) -> Fix | None:
    alias = next(
        (
            alias.asname or alias.name
            for node in module.tree.nodes(ast.Import)
            for alias in node.names
            if alias.name == "numpy" and module.tree.function(node) is None
        ),
        None,
    )
    if alias is None or not isinstance(data, ast.List | ast.ListComp | ast.Name | ast.Attribute):
        return None
    start = module.text.span(data).start
    return Fix(
        f"Join them with `{alias}.array`",
        (Edit(start, start, f"{alias}.array("), insert_after(module, data, ")")),
    )


RULE = Rule("FO308", "tensor-of-arrays", "medium", find, needs=("np.", "numpy"))
