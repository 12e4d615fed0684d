"""FO102: a clock is read around GPU work that was only queued: it measures the launch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scopes import Binding
from flatout.check.waits import READING_METHODS
from flatout.check.words import words

CLOCKS = frozenset(
    words("time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic timeit.default_timer")
)
READS = (*READING_METHODS, "cpu")
# What makes the host wait for the GPU, or shows that the writer has thought of it.
_WAITING_WORDS = ("synchronize", "elapsed_time", "barrier", "wait_stream", "block_until_ready", "mark_step")


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    for reading in module.tree.nodes(ast.BinOp):
        if not isinstance(reading.op, ast.Sub) or not isinstance(reading.right, ast.Name):
            continue
        if isinstance(module.tree.parent(reading), ast.Compare):
            continue  # a time limit, not a measurement
        start = _clock_reading(module, reading.right)
        if start is None or not _is_clock(module, module.origin(reading.left)):
            continue
        end = module.origin(reading.left)  # where the clock was read the second time
        between = _between(module, start.node, end)
        if between is None or _waits(module, between):
            continue
        work = next((node for statement in between for node in _gpu_work(module, statement)), None)
        if work is not None:
            yield Hit(
                reading,
                f"`{module.text.short(reading)}` times the launch of `{module.text.short(work, 40)}`, not its work: "
                "nothing waits for the GPU first",
                "Call `torch.cuda.synchronize()` before each reading of the clock, or use `torch.utils.benchmark`.",
            )


def _clock_reading(module: Module, name: ast.Name) -> Binding | None:
    """The one assignment `name = time.time()` that the subtraction means."""
    bindings = module.scopes.reaching(name.id, name)
    if len(bindings) != 1 or bindings[0].kind != "assign" or not _is_clock(module, bindings[0].value):
        return None
    return bindings[0]


def _is_clock(module: Module, node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and module.qualified(node.func) in CLOCKS


def _between(module: Module, start: ast.AST, end: ast.AST) -> list[ast.stmt] | None:
    """The statements from one reading to the other; None unless both stand in one block."""
    first, last = module.tree.statement(start), module.tree.statement(end)
    block = module.tree.blocks.get(first)
    while module.tree.blocks.get(last) is not block:
        above = module.tree.parent(last)
        if above is None or isinstance(above, ast.Module):
            return None
        last = module.tree.statement(above)
    assert block is not None
    here, there = block.index(first), block.index(last)
    return block[here + 1 : there] if here < there else None


def _waits(module: Module, statements: list[ast.stmt]) -> bool:
    text = "\n".join(module.text.of(statement) for statement in statements)
    if any(word in text for word in _WAITING_WORDS):
        return True
    inside = {node for statement in statements for node in ast.walk(statement)}
    return any(wait.node in inside for wait in module.waits) or any(_calls(node, READS) for node in inside)


def _gpu_work(module: Module, statement: ast.stmt) -> Iterator[ast.expr]:
    """Expressions that surely queue work on the GPU. A loop over a DataLoader waits for its data, and is no such."""
    for node in ast.walk(statement):
        if isinstance(node, ast.For) and module.fact(node.iter).kind == "DataLoader":
            return
    for node in ast.walk(statement):
        if isinstance(node, ast.Call | ast.BinOp):
            fact = module.fact(node)
            if fact.is_tensor and fact.on_gpu and not _calls(node, ("to", "cuda", "detach")):
                yield node


def _calls(node: ast.AST, methods: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods


RULE = Rule("FO102", "timed-without-synchronize", "high", find, needs=("time",))
