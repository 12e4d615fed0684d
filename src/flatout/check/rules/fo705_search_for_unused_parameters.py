"""FO705: DistributedDataParallel told to look for unused parameters, on a model that uses all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.fixes import remove_argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import DISTRIBUTED_DATA_PARALLEL
from flatout.check.tree import FUNCTIONS
from flatout.source import Fix

# Models of torchvision whose every layer takes part in each forward pass (not those with auxiliary or optional heads).
_WHOLE = re.compile(
    r"torchvision\.models\.(?:resnet|resnext|wide_resnet|vgg|densenet|mobilenet|efficientnet|convnext|regnet|alexnet"
    r"|squeezenet|mnasnet|shufflenet|vit_|swin_)\w*"
)
# Reasons why some parameters may get no gradient after all.
_FROZEN = re.compile(r"requires_grad|freeze|frozen|layer_?drop|drop_path|stochastic_depth|\.detach\(\)", re.I)


def find(module: Module) -> Iterator[Hit]:
    if _FROZEN.search(module.text.text):
        return
    for call in module.calls(DISTRIBUTED_DATA_PARALLEL):
        option = next((item for item in call.keywords if item.arg == "find_unused_parameters"), None)
        if option is None or not isinstance(option.value, ast.Constant) or option.value.value is not True:
            continue
        model = call.args[0] if call.args else keyword(call, "module")
        if model is None or not _uses_all(module, model):
            continue
        name = ast.unparse(model)
        yield Hit(
            option,
            f"`find_unused_parameters=True` walks the whole graph on each step, and `{name}` uses all its parameters",
            "Leave it away.",
            Fix("Remove `find_unused_parameters=True`", (remove_argument(module, call, option),), "unsafe"),
        )


def _uses_all(module: Module, model: ast.expr) -> bool:
    name = module.fact(model).class_name or ""
    if _WHOLE.fullmatch(name) or name == "torch.nn.Sequential":
        return True
    class_ = next((item for item in module.tree.nodes(ast.ClassDef) if item.name == name), None)
    return class_ is not None and _calls_all(module, class_)


def _calls_all(module: Module, class_: ast.ClassDef) -> bool:
    """Whether `forward` of a local layer calls each of PyTorch's layers that the class keeps, and nothing decides."""
    forward = next((item for item in class_.body if isinstance(item, FUNCTIONS) and item.name == "forward"), None)
    if forward is None or any(isinstance(node, ast.If | ast.IfExp | ast.Try) for node in ast.walk(forward)):
        return False
    called = {ast.unparse(node.func) for node in ast.walk(forward) if isinstance(node, ast.Call)}
    kept = module.classes.self_assignments(class_)
    layers = {name: values for name, values in kept.items() if any(_is_made(module, value) for value in values)}
    return bool(layers) and all(
        len(values) == 1 and _is_simple(module, values[0]) and f"self.{name}" in called
        for name, values in layers.items()
    )


def _is_made(module: Module, value: ast.expr | None) -> bool:
    return value is None or isinstance(value, ast.Call)


def _is_simple(module: Module, value: ast.expr | None) -> bool:
    """Whether it is one of PyTorch's own layers, which use all that they have."""
    name = module.qualified(value.func) if isinstance(value, ast.Call) else None
    return name is not None and name.startswith("torch.nn.") and name.count(".") == 2


RULE = Rule("FO705", "search-for-unused-parameters", "low", find, needs=("find_unused_parameters",))
