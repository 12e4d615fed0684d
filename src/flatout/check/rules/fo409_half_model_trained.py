"""FO409: a model whose weights themselves are float16 is trained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import read_move
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import before

# Master weights in float32, kept by a library or by hand.
_MASTER = re.compile(r"master|FP16_Optimizer|deepspeed|apex|fp32_param|DPOptimizer|bitsandbytes|lora|peft", re.I)


def find(module: Module) -> Iterator[Hit]:
    if not module.regions.optimizer_steps or not module.losses.backwards or _MASTER.search(module.text.text):
        return
    for call in module.methods("half", "to"):
        assert isinstance(call.func, ast.Attribute)
        if not _to_half(module, call) or module.fact(call.func.value).kind != "Module":
            continue
        model = _kept_in(module, call)
        if model is None or not _optimized(module, model, call):
            continue
        yield Hit(
            call,
            f"`{model}` is trained with float16 weights: an update smaller than a weight's last digit is lost, and "
            "Adam "
            "divides by a zero `eps`",
            f"Keep the weights of `{model}` in float32 and compute under `torch.autocast`, or use bfloat16 weights "
            "with an "
            "optimizer made for them.",
        )


def _to_half(module: Module, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "half":
        return not call.args
    move = read_move(module.facts, call)
    dtype = move.dtype if move is not None else None
    return isinstance(dtype, ast.expr) and module.fact(dtype).dtype == "torch.float16"


def _kept_in(module: Module, call: ast.Call) -> str | None:
    """The variable or attribute that is half afterwards: `model.half()`, `model = Net().half().cuda()`."""
    assert isinstance(call.func, ast.Attribute)
    statement = module.tree.statement(call)
    if isinstance(statement, ast.Expr):
        owner: ast.expr = call.func.value
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_chain(statement.value, call):
        owner = statement.targets[0]
    else:
        return None
    return ast.unparse(owner) if isinstance(owner, ast.Name | ast.Attribute) else None


def _is_chain(value: ast.expr, call: ast.Call) -> bool:
    """Whether `call` is `value`, or further methods are called on it."""
    while value is not call:
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
            return False
        if value.func.attr not in ("cuda", "to", "train", "eval"):
            return False
        value = value.func.value
    return True


def _optimized(module: Module, model: str, call: ast.Call) -> bool:
    """Whether an optimizer of the same function, or class, takes `model.parameters()`, and the halving precedes "
    "steps."""
    for parameters in module.methods("parameters"):
        assert isinstance(parameters.func, ast.Attribute)
        if ast.unparse(parameters.func.value) != model or parameters.args:
            continue
        above = module.tree.parent(parameters)
        if not isinstance(above, ast.Call) or module.fact(above).kind != "Optimizer":
            continue
        same = module.tree.function(parameters) is module.tree.function(call)
        if same and all(before(call, step) for step in _steps_of(module, call)):
            return True
    return False


def _steps_of(module: Module, call: ast.Call) -> list[ast.Call]:
    function = module.tree.function(call)
    return [step for step in module.regions.optimizer_steps if module.tree.function(step) is function]


RULE = Rule("FO409", "half-model-trained", "high", find, needs=(".half(", "float16", "torch.half"))
