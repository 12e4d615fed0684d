"""Code that only some ranks run, and the calls that all of them must make together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.devices import keyword
from flatout.check.tree import FUNCTIONS
from flatout.check.words import words

if TYPE_CHECKING:
    from flatout.check.module import Module

# Collectives of torch.distributed, with the position of their `group` argument (PyTorch 2.13's signatures).
GROUP_POSITIONS = {
    "all_reduce": 2,
    "broadcast": 2,
    "reduce": 3,
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_object": 2,
    "gather": 3,
    "gather_object": 3,
    "scatter": 3,
    "scatter_object_list": 3,
    "broadcast_object_list": 2,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "all_to_all": 2,
    "all_to_all_single": 4,
    "barrier": 0,
    "monitored_barrier": 0,
}
_CHECKPOINTS = frozenset(
    f"torch.distributed.checkpoint.{name}" for name in words("save load async_save state_dict.get_state_dict")
)
_METHODS = {
    "accelerator": frozenset(words("wait_for_everyone gather gather_for_metrics reduce pad_across_processes")),
    "fabric": frozenset(words("barrier all_gather all_reduce")),
}
_SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"

_RANKS = frozenset(words("rank local_rank global_rank world_rank process_rank ddp_rank ddp_local_rank process_index"))
_RANK_CALLS = frozenset(words("get_rank get_local_rank get_global_rank get_node_local_rank"))
_MAIN = frozenset(
    words(
        "is_main_process is_main is_master is_master_process master_process main_process is_local_main_process "
        "is_global_zero is_rank_zero is_rank0 is_local_master is_primary is_chief rank_zero"
    )
)


class RankBranch(NamedTuple):
    """An `if` on the rank around a node. `on_main`: the node runs on the one rank that is named, not on the others."""

    statement: ast.If
    on_main: bool
    in_body: bool


def collective(module: Module, call: ast.Call) -> str | None:
    """The name of the collective over all ranks that `call` is; None for other calls and for those of a group."""
    func = call.func
    if not isinstance(func, ast.Attribute | ast.Name):
        return None
    name = module.qualified(func) or _unimported(module, func)
    if name is not None and name.startswith("torch.distributed."):
        last = name.rpartition(".")[2]
        if name in _CHECKPOINTS:
            return None if keyword(call, "no_dist") or keyword(call, "process_group") else last
        if name.count(".") != 2 or last not in GROUP_POSITIONS:
            return None
        return None if _has_group(module, call, GROUP_POSITIONS[last]) else last
    if isinstance(func, ast.Attribute):
        owner = last_word(func.value)
        if func.attr in _METHODS.get(owner, ()):
            return func.attr
        if func.attr == "state_dict" and _is_sharded(module, func.value):
            return "state_dict"
    return None


def _unimported(module: Module, func: ast.expr) -> str | None:
    """`dist.all_reduce` in a snippet that leaves its imports out."""
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "dist":
        return f"torch.distributed.{func.attr}" if module.scopes.lookup("dist", func) is None else None
    return None


def _has_group(module: Module, call: ast.Call, position: int) -> bool:
    group = keyword(call, "group") or keyword(call, "process_group")
    if group is None and len(call.args) > position:
        group = call.args[position]
    if group is None:
        return any(item.arg is None for item in call.keywords)
    if isinstance(group, ast.Constant) and group.value is None:
        return False
    return module.qualified(group) not in ("torch.distributed.group.WORLD", "torch.distributed.GroupMember.WORLD")


def _is_sharded(module: Module, node: ast.expr) -> bool:
    origin = module.origin(node)
    return isinstance(origin, ast.Call) and (module.qualified(origin.func) or "").startswith(_SHARDED)


def rank_branches(module: Module, node: ast.AST) -> Iterator[RankBranch]:
    """The `if`s on the rank that `node` stands under in its function, innermost first."""
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, FUNCTIONS) and isinstance(below, ast.stmt):
            return
        if isinstance(above, ast.If) and below is not above.test:
            one = holds_on_one(module, above.test)
            if one is not None:
                in_body = any(below is item for item in above.body)
                yield RankBranch(above, one == in_body, in_body)
        below = above


def holds_on_one(module: Module, test: ast.expr, depth: int = 4) -> bool | None:
    """Whether `test` is true on one rank only (`rank == 0`) or on all others (`rank != 0`); None: it asks no rank."""
    if depth == 0:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = holds_on_one(module, test.operand, depth)
        return None if found is None else not found
    if isinstance(test, ast.BoolOp):
        if not isinstance(test.op, ast.And) or "world_size" in ast.unparse(test):
            return None
        return next((one for value in test.values if (one := holds_on_one(module, value, depth)) is not None), None)
    if isinstance(test, ast.Compare):
        return _compared(module, test)
    if isinstance(test, ast.Call):
        return True if last_word(test.func) in _MAIN and not test.args else None
    if isinstance(test, ast.Name | ast.Attribute):
        if last_word(test) in _MAIN:
            return True
        origin = module.origin(test)
        return holds_on_one(module, origin, depth - 1) if origin is not test else None
    return None


def _compared(module: Module, test: ast.Compare) -> bool | None:
    if len(test.ops) != 1 or not is_rank(module, test.left):
        return None
    op, other = test.ops[0], test.comparators[0]
    if isinstance(op, ast.In | ast.NotIn):
        values = ast.unparse(other).strip("[](){} ").rstrip(",").replace(" ", "")
        return isinstance(op, ast.In) if values in ("-1,0", "0,-1", "0") else None
    number = module.constant(other)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        return None
    if isinstance(op, ast.Eq | ast.NotEq):
        return isinstance(op, ast.Eq)
    return False if isinstance(op, ast.Gt) and number == 0 else None


def is_rank(module: Module, node: ast.expr, depth: int = 4) -> bool:
    """Whether `node` is the number of this process among all, or among those of its machine."""
    if isinstance(node, ast.Call):
        last = last_word(node.func)
        if last in _RANK_CALLS:
            return not node.args and not node.keywords  # of a group, otherwise
        return last == "int" and bool(node.args) and is_rank(module, node.args[0], depth)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in ("RANK", "LOCAL_RANK")
    if isinstance(node, ast.Name | ast.Attribute):
        if last_word(node).lower() in _RANKS:
            return True
        origin = module.origin(node) if depth else node
        return origin is not node and is_rank(module, origin, depth - 1)
    return False


def last_word(node: ast.expr) -> str:
    """`c` of `a.b.c`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
