"""FO502: a validation loop records the graph that only a backward pass would need."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.evaluation import EvaluationLoop
from flatout.check.keeping import kept_values, outlives
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    for found in module.evaluations.loops:
        if not module.evaluations.records_graph(found):
            continue
        function = module.tree.function(found.loop)
        model = ast.unparse(found.call.func)
        kept = _kept(module, found)
        where = f"`{function.name}`" if function is not None else "this loop"
        yield Hit(
            found.loop,
            f"{where} runs `{model}` with gradients recorded: the activations of a batch are kept for a backward "
            "pass that " + (f"never comes, and `{kept}` keeps those of all batches" if kept else "never comes"),
            "Decorate it with `@torch.inference_mode()`."
            if function is not None and not _trains_elsewhere(module, function)
            else "Put the loop under `with torch.inference_mode():`.",
            _fix(module, found),
            severity="high" if kept else None,
        )


def _kept(module: Module, found: EvaluationLoop) -> str | None:
    """What collects results with their graph over the loop."""
    for kept in kept_values(module):
        inside = module.tree.within(kept.node, found.loop) and module.fact(kept.value).has_graph
        if inside and outlives(module, kept.place, found.loop):
            return ast.unparse(kept.place)
    return None


def _trains_elsewhere(module: Module, function: ast.AST) -> bool:
    return any(module.tree.within(backward.call, function) for backward in module.losses.backwards)


def _fix(module: Module, found: EvaluationLoop) -> Fix | None:
    """A decorator for the whole function, where all that it does is to evaluate."""
    function = module.tree.function(found.loop)
    if not isinstance(function, ast.FunctionDef) or _trains_elsewhere(module, function):
        return None
    torch = module.scopes.lookup("torch", function)
    if torch is None or any(not isinstance(binding.node, ast.Import) for binding in torch[1]):
        return None
    if any(isinstance(node, (*FUNCTIONS, ast.Yield)) and node is not function for node in ast.walk(function)):
        return None
    at = module.text.line_starts[function.lineno - 1]
    indent = module.text.text[at : module.text.span(function).start]
    if indent.strip():
        return None
    content = f"{indent}@torch.no_grad(){module.text.newline}"
    return Fix(f"Decorate `{function.name}` with `@torch.no_grad()`", (Edit(at, at, content),), "unsafe")


RULE = Rule("FO502", "evaluation-records-graph", "medium", find, needs=("torch", ".cuda("))
