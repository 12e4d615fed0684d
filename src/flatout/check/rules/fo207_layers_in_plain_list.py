"""FO207: layers kept in a plain list or dict of a module: PyTorch does not see them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import insert_after
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    for class_ in module.tree.nodes(ast.ClassDef):
        if not module.classes.is_layer(class_):
            continue
        for name, values in module.classes.self_assignments(class_).items():
            for value in values:
                kind = _container(module, value) if value is not None else None
                if value is not None and kind is not None and not _is_registered(module, class_, name):
                    yield _hit(module, name, value, kind)


def _container(module: Module, value: ast.expr) -> str | None:
    """Which of PyTorch's containers belongs there, if the value is a plain one that holds layers."""
    if isinstance(value, ast.List) and value.elts:
        held = [module.fact(item) for item in value.elts[:16]]
        return "ModuleList" if all(_is_layer(fact.kind, fact.class_name) for fact in held) else None
    if isinstance(value, ast.ListComp):
        fact = module.fact(value.elt)
        return "ModuleList" if _is_layer(fact.kind, fact.class_name) else None
    if isinstance(value, ast.Dict) and value.values:
        held = [module.fact(item) for item in value.values[:16]]
        strings = all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier()
            for key in value.keys
        )
        return "ModuleDict" if strings and all(_is_layer(fact.kind, fact.class_name) for fact in held) else None
    if isinstance(value, ast.List) and not value.elts:
        return "ModuleList" if _gets_layers(module, value) else None
    return None


def _is_layer(kind: str | None, class_name: str | None) -> bool:
    """A layer with parameters of its own, surely: a hint by name is not enough, and an activation has none."""
    if kind != "Module" or class_name is None:
        return False
    return class_name.rpartition(".")[2] not in _WITHOUT_PARAMETERS


def _gets_layers(module: Module, empty: ast.List) -> bool:
    """Whether the list that begins empty has layers appended to it: `self.layers.append(nn.Linear(...))`."""
    target = module.tree.parent(empty)
    if not isinstance(target, ast.Assign) or not isinstance(target.targets[0], ast.Attribute):
        return False
    name, class_ = target.targets[0].attr, module.tree.class_(empty)
    for call in module.methods("append"):
        assert isinstance(call.func, ast.Attribute)
        owner = call.func.value
        if isinstance(owner, ast.Attribute) and owner.attr == name and module.tree.class_(call) is class_ and call.args:
            fact = module.fact(call.args[0])
            if _is_layer(fact.kind, fact.class_name):
                return True
    return False


def _is_registered(module: Module, class_: ast.ClassDef, name: str) -> bool:
    """Whether the layers are registered in another way: `add_module`, or put into a container later."""
    for call in module.methods("add_module", "register_module"):
        if module.tree.class_(call) is class_:
            return True
    into_containers = (
        argument
        for node in ast.walk(class_)
        if isinstance(node, ast.Call) and module.qualified(node.func) in _CONTAINERS
        for argument in node.args
    )
    parts = (part for argument in into_containers for part in ast.walk(argument))
    return any(isinstance(part, ast.Attribute) and part.attr == name for part in parts)


def _hit(module: Module, name: str, value: ast.expr, container: str) -> Hit:
    call = _spelled(module, container)
    kind = "dict" if container == "ModuleDict" else "list"
    start = module.text.span(value).start
    fix = Fix(f"Wrap in `{call}`", (Edit(start, start, f"{call}("), insert_after(module, value, ")")), "unsafe")
    return Hit(
        value,
        f"`self.{name}` is a plain {kind}: `parameters()`, `.to()` and `state_dict()` miss the layers in it",
        f"Make it `{call}(...)`: then they are trained, moved and saved.",
        fix,
    )


def _spelled(module: Module, container: str) -> str:
    """The container in the module's own way to name torch.nn."""
    for node in module.tree.nodes(ast.Attribute):
        if isinstance(node.value, ast.Name | ast.Attribute) and module.qualified(node.value) == "torch.nn":
            return f"{module.text.of(node.value)}.{container}"
    return f"torch.nn.{container}"


_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"})
_WITHOUT_PARAMETERS = frozenset(
    {
        "ReLU",
        "GELU",
        "SiLU",
        "Tanh",
        "Sigmoid",
        "Dropout",
        "Identity",
        "Softmax",
        "LeakyReLU",
        "ELU",
        "MaxPool2d",
        "Flatten",
    }
    | {"CrossEntropyLoss", "MSELoss", "L1Loss", "BCELoss", "BCEWithLogitsLoss", "NLLLoss", "KLDivLoss", "SmoothL1Loss"}
)

RULE = Rule("FO207", "layers-in-plain-list", "high", find, needs=("Module",), in_tests=True)
