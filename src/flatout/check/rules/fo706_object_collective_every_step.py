"""FO706: Python objects sent between ranks on each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.ranks import last_word
from flatout.check.rule import Hit, Rule
from flatout.check.rules.fo704_barrier_every_step import runs_every_step
from flatout.check.words import words

_OBJECTS = words("all_gather_object gather_object broadcast_object_list scatter_object_list")


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*(f"torch.distributed.{name}" for name in _OBJECTS), "accelerate.utils.gather_object"):
        if runs_every_step(module, call):
            yield Hit(
                call,
                f"`{last_word(call.func)}` pickles `{_what(module, call)}` on each step, and the host waits for its "
                "size before it can send it",
                "Send tensors (`all_gather_into_tensor`, `all_reduce`), or gather the objects once an epoch.",
            )


def _what(module: Module, call: ast.Call) -> str:
    index = 1 if last_word(call.func) == "all_gather_object" else 0
    values: list[ast.expr] = [*call.args, *(item.value for item in call.keywords)]
    return module.text.short(values[min(index, len(values) - 1)], 40) if values else "objects"


RULE = Rule("FO706", "object-collective-every-step", "medium", find, needs=("_object",))
