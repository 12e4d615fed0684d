"""FO513: `torch.save(model)` pickles the class with the weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls("torch.save"):
        if not call.args:
            continue
        model = call.args[0]
        if not isinstance(model, ast.Name | ast.Attribute) or module.fact(model).kind != "Module":
            continue
        if module.fact(model).class_name is None and not _is_called(module, model):
            continue  # only its name says that it is a model: it may be a state_dict that is called so
        name = ast.unparse(model)
        yield Hit(
            call,
            f"`torch.save({name}, ...)` pickles the whole object: since PyTorch 2.6 `torch.load` refuses it by "
            "default, and it "
            "breaks when the class moves or changes",
            f"Save `{name}.state_dict()`, and load it into a model that the program has built.",
        )


def _is_called(module: Module, model: ast.expr) -> bool:
    """Whether a method that only a module has is called on it."""
    name = ast.unparse(model)
    return any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == name
        for call in module.methods("eval", "train", "parameters", "state_dict", "load_state_dict")
    )


RULE = Rule("FO513", "whole-model-saved", "low", find, needs=("torch.save", "save("))
