"""FO201: a tensor that is made on the CPU and copied to the GPU, where it could have been made there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import Move, argument, keyword, read_move
from flatout.check.fixes import add_argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import FACTORIES, FROM_DATA, RANDOM
from flatout.source import Edit, Fix

# From Python data the values are gathered on the CPU in any case.
_MAKERS = FACTORIES - FROM_DATA - {"torch.complex", "torch.polar", "torch.sparse_coo_tensor"}


def find(module: Module) -> Iterator[Hit]:
    for call in module.methods("to", "cuda"):
        assert isinstance(call.func, ast.Attribute)
        made = call.func.value
        if not isinstance(made, ast.Call) or (name := module.qualified(made.func)) not in _MAKERS:
            continue
        move = read_move(module.facts, call)
        if (
            move is None
            or move.device is None
            or keyword(made, "device") is not None
            or keyword(made, "generator") is not None
            or keyword(made, "out") is not None
            or _pinned(module, made)
        ):
            continue
        if not _goes_to_gpu(module, move) or not module.fact(made).on_cpu:
            continue
        if module.region(call) is None or module.is_rare(call):
            continue
        given = argument(call, 0, "device") if isinstance(move.device, str) else move.device
        device = '"cuda"' if given is None else module.text.of(given)
        yield Hit(
            call,
            f"`{module.text.short(call)}` is made on the CPU and copied to the GPU each time",
            f"Make it there: `device={device}`.",
            _fix(module, call, made, move, device, is_random=name in RANDOM),
        )


def _goes_to_gpu(module: Module, move: Move) -> bool:
    if isinstance(move.device, str):
        return move.device == "cuda"
    assert move.device is not None
    return module.facts.device(move.device) not in ("cpu", "meta")


def _pinned(module: Module, made: ast.Call) -> bool:
    return module.fact(made).pinned is not False


def _fix(module: Module, call: ast.Call, made: ast.Call, move: Move, device: str, *, is_random: bool) -> Fix | None:
    if move.dtype is not None or move.unclear is not None or any(item.arg is None for item in made.keywords):
        return None
    try:
        give = add_argument(module, made, f"device={device}")
    except ValueError:
        return None
    drop = Edit(module.text.span(made).end, module.text.span(call).end, "")
    if "#" in module.text.text[drop.start : drop.end]:
        return None  # a comment would go with it
    # A GPU has its own random numbers; and what requires a gradient is a leaf only where it is made.
    differs = is_random or keyword(made, "requires_grad") is not None
    return Fix(f"Make it with `device={device}`", (give, drop), "unsafe" if differs else "safe")


RULE = Rule("FO201", "built-on-cpu-then-moved", "medium", find, needs=("torch",))
