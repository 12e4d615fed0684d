"""FO509: the hidden state of a recurrent network goes from step to step with its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.carried import carried_in_layers, carried_state
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    done: set[ast.AST] = set()
    for state in carried_state(module):
        if state.node in done:
            continue
        done.add(state.node)
        names = [other.name for other in carried_state(module) if other.node is state.node]
        said = " and ".join(f"`{name}`" for name in names)
        carry = "carries" if len(names) == 1 else "carry"
        what = (
            "each backward runs through all earlier steps, and time and memory grow with every step"
            if state.retained
            else "the second backward raises RuntimeError, as the graph of the first step is gone"
        )
        yield Hit(
            state.node,
            f"{said} {carry} the graph from one step to the next: {what}",
            f"Detach before the next step: `{names[0]} = {names[0]}.detach()`"
            + (f", and {' and '.join(f'`{name}`' for name in names[1:])} likewise." if names[1:] else "."),
        )

    if any("retain_graph=True" in ast.unparse(found.call) for found in module.losses.backwards):
        for node, name in carried_in_layers(module):
            yield Hit(
                node,
                f"`{name}` carries the graph from one call to the next, never detached: each backward runs through all "
                "earlier steps, and time and memory grow with every step",
                f"Detach before the next step: `{name} = {name}.detach()`; a pair needs both parts detached.",
            )


RULE = Rule("FO509", "hidden-state-kept-with-graph", "high", find, needs=("backward",))
