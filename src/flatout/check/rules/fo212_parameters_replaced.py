"""FO212: parameters that are replaced after the optimizer was made: it goes on updating the old ones."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from flatout.check.devices import argument, keyword
from flatout.check.fact import UNKNOWN
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_SHARDING = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)


def find(module: Module) -> Iterator[Hit]:
    replaced: dict[tuple[ast.AST, str], list[tuple[ast.expr | ast.stmt, str]]] = defaultdict(list)
    for changed, node, what in _replacements(module):
        if (owner := _owner(module, changed)) is not None:
            replaced[owner].append((node, what))
    if not replaced:
        return
    for optimizer in module.calls("torch.optim."):
        assign = module.tree.parent(optimizer)
        model = _model(optimizer)
        if model is None or not isinstance(assign, ast.Assign) or module.fact(optimizer).kind != "Optimizer":
            continue
        owner = _owner(module, model)
        for node, what in replaced.get(owner, ()) if owner is not None else ():
            if _follows(module, assign, node) and not _is_made_again(module, assign, node):
                name = module.text.of(assign.targets[0])
                yield Hit(
                    node,
                    f"{what} after `{name}` was made on line {optimizer.lineno}: `{name}` does not have the new ones",
                    f"Do this first, and make `{name}` after it.",
                )


def _model(optimizer: ast.Call) -> ast.Name | None:
    """The variable whose `.parameters()` the optimizer is given."""
    given = argument(optimizer, 0, "params")
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "parameters":
        return given.func.value if isinstance(given.func.value, ast.Name) else None
    return None


def _replacements(module: Module) -> Iterator[tuple[ast.expr, ast.expr | ast.stmt, str]]:
    """What gives a model other parameters: the model, the place, words for it."""
    for call in module.calls(*_SHARDING):
        if call.args:
            yield call.args[0], call, f"`{module.text.short(call)}` replaces the parameters"
    for call in module.methods("load_state_dict"):
        assert isinstance(call.func, ast.Attribute)
        flag = keyword(call, "assign")
        if flag is not None and module.constant(flag) is True:
            yield call.func.value, call, "`assign=True` replaces the parameters"
    for target in module.tree.nodes(ast.Attribute):
        assign = module.tree.parent(target)
        if isinstance(target.ctx, ast.Store) and isinstance(assign, ast.Assign):
            fact = module.fact(assign.value) if isinstance(assign.value, ast.Call) else UNKNOWN
            if fact.kind == "Module" and fact.class_name in _WITH_PARAMETERS:
                yield target.value, assign, f"`{module.text.of(target)}` gets a new layer"


def _owner(module: Module, model: ast.expr) -> tuple[ast.AST, str] | None:
    """The variable that a model is in."""
    found = module.scopes.lookup(model.id, model) if isinstance(model, ast.Name) else None
    return (found[0], model.id) if found is not None and isinstance(model, ast.Name) else None


def _follows(module: Module, optimizer: ast.stmt, node: ast.AST) -> bool:
    """Whether `node` surely runs after the optimizer is made, in the same list of statements."""
    statement = module.tree.statement(node)
    block = module.tree.blocks.get(optimizer)
    return module.tree.blocks.get(statement) is block and statement.lineno > optimizer.lineno


def _is_made_again(module: Module, optimizer: ast.Assign, node: ast.AST) -> bool:
    """Whether the optimizer gets the new parameters later: made again, or by `add_param_group`."""
    line = module.tree.statement(node).lineno
    target = optimizer.targets[0]
    if isinstance(target, ast.Name):
        uses = module.scopes.mentions(target.id, line)
        if any(isinstance(use.ctx, ast.Store) for use in uses):
            return True
    else:  # self.optimizer
        text = module.text.of(target)
        later = [call for call in module.calls("torch.optim.") if call.lineno > line]
        makers = [module.tree.parent(call) for call in later]
        if any(isinstance(made, ast.Assign) and module.text.of(made.targets[0]) == text for made in makers):
            return True
    return bool(module.methods("add_param_group"))


_WITH_PARAMETERS = frozenset(
    f"torch.nn.{name}" for name in ("Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding", "Sequential", "LayerNorm")
)

RULE = Rule("FO212", "parameters-replaced", "high", find, needs=("optim",))
