"""FO402: the backward pass stands inside the autocast region, which is meant for forward and loss only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    for backward in module.losses.backwards:
        region = module.autocast(backward.call)
        if backward.by_helper or region is None or region.enabled is False or module.grad_is_off(backward.call):
            continue
        name = ast.unparse(backward.call.func)
        yield Hit(
            backward.call,
            f"`{name}()` runs inside the autocast region of line {region.call.lineno}: gradients of float32 parts of "
            "the "
            "model are computed in the lower precision, too",
            f"Move `{name}()` out of the `with` block; each backward operation then takes the precision of its "
            "forward.",
            evidence={"autocast_line": region.call.lineno},
        )


RULE = Rule("FO402", "backward-under-autocast", "medium", find, needs=("autocast",))
