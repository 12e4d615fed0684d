"""FO407: binary cross entropy of probabilities under autocast on CUDA, which PyTorch refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    calls = [(call, "F.binary_cross_entropy") for call in module.calls("torch.nn.functional.binary_cross_entropy")]
    for call in module.tree.nodes(ast.Call):
        if isinstance(call.func, ast.Name | ast.Attribute | ast.Call):
            fact = module.fact(call.func)
            if fact.kind == "Module" and fact.class_name == "torch.nn.BCELoss":
                calls.append((call, "nn.BCELoss"))
    for call, what in calls:
        region = module.autocast(call)
        if region is None or region.device != "cuda" or region.enabled is False:
            continue
        yield Hit(
            call,
            f"`{ast.unparse(call.func)}` is {what} under CUDA autocast: it raises RuntimeError, as the sigmoid "
            "before it "
            "may underflow in float16",
            f"Give the logits, without the sigmoid, to `{what.replace('BCELoss', 'BCEWithLogitsLoss')}"
            f"{'' if 'BCE' in what else '_with_logits'}`.",
        )


RULE = Rule(
    "FO407",
    "loss-unsafe-under-autocast",
    "high",
    find,
    needs=("BCELoss", "binary_cross_entropy"),
    in_tests=True,
)
