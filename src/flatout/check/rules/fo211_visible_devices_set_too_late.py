"""FO211: `CUDA_VISIBLE_DEVICES` set when CUDA has started already: nobody reads it any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import keyword, read_move
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import FACTORIES

# Calls that start the CUDA driver in the process; `torch.cuda.device_count` asks NVML instead.
_STARTING = (
    "torch.cuda.is_available",
    "torch.cuda.init",
    "torch.cuda.set_device",
    "torch.cuda.current_device",
    "torch.cuda.get_device_name",
    "torch.cuda.get_device_properties",
    "torch.cuda.get_device_capability",
    "torch.cuda.mem_get_info",
    "torch.cuda.synchronize",
    "torch.cuda.empty_cache",
)


def find(module: Module) -> Iterator[Hit]:
    settings = _settings(module)
    starting = sorted(_starting(module), key=lambda call: call.lineno) if settings else []
    for setting in settings:
        started = next((call for call in starting if _ran_before(module, call, setting)), None)
        if started is not None:
            yield Hit(
                setting,
                f"`{module.text.short(started)}` on line {started.lineno} has started CUDA already: it keeps the GPUs "
                "that it saw then, and this setting changes nothing",
                "Set it before that line, best in the shell: `CUDA_VISIBLE_DEVICES=1 python train.py`.",
            )


def _settings(module: Module) -> list[ast.stmt]:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = ...` and its kin."""
    found: list[ast.stmt] = []
    for target in module.tree.nodes(ast.Subscript):
        if isinstance(target.ctx, ast.Store) and _is_name(target.slice) and _is_environment(module, target.value):
            found.append(module.tree.statement(target))
    for call in module.calls("os.environ.setdefault", "os.putenv", "os.environ.update"):
        if call.args and _is_name(call.args[0]):
            found.append(module.tree.statement(call))
    return found


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES"


def _is_environment(module: Module, node: ast.expr) -> bool:
    return module.qualified(node) == "os.environ"


def _starting(module: Module) -> Iterator[ast.Call]:
    yield from module.calls(*_STARTING)
    for call in module.methods("cuda", "to"):
        move = read_move(module.facts, call)
        if move is not None and move.device is not None:
            device = move.device
            if device == "cuda" or (isinstance(device, ast.expr) and _names_cuda(module, device)):
                yield call
    for call in module.calls(*sorted(FACTORIES)):
        given = keyword(call, "device")
        if given is not None and _names_cuda(module, given):
            yield call


def _names_cuda(module: Module, node: ast.expr) -> bool:
    value = module.constant(node)
    return isinstance(value, str) and value.startswith("cuda")


def _ran_before(module: Module, call: ast.Call, setting: ast.stmt) -> bool:
    """Whether the call surely ran when the setting does: above it in the same function, or at the module's top."""
    function = module.tree.function(call)
    if isinstance(module.scopes.of(call), ast.Lambda) or (call.lineno, call.col_offset) >= (
        setting.lineno,
        setting.col_offset,
    ):
        return False
    if function is not None and function is not module.tree.function(setting):
        return False
    # In the test of an `if` it runs; in one of its branches it may not.
    block = module.tree.blocks[module.tree.statement(call)]
    return any(module.tree.blocks.get(above) is block for above in _statements(module, setting)) or (
        function is None and block is module.tree.root.body
    )


def _statements(module: Module, statement: ast.stmt) -> Iterator[ast.stmt]:
    yield statement
    for above in module.tree.ancestors(statement):
        if isinstance(above, ast.stmt):
            yield above


RULE = Rule("FO211", "visible-devices-set-too-late", "high", find, needs=("CUDA_VISIBLE_DEVICES",))
