"""FO206: `x.to(device)` on a tensor, as a statement: the moved copy is thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import read_move
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scopes import Binding
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    for call in module.methods("to", "cuda", "cpu", "half", "float", "double", "bfloat16"):
        assert isinstance(call.func, ast.Attribute)
        statement = module.tree.parent(call)
        owner = call.func.value
        if not isinstance(statement, ast.Expr) or not isinstance(owner, ast.Name) or not _is_tensor(module, owner):
            continue
        if call.func.attr == "to" and read_move(module.facts, call) is None:
            continue
        name = owner.id
        start = module.text.span(statement).start
        fix = Fix(f"Assign it: `{name} = {module.text.short(call)}`", (Edit(start, start, f"{name} = "),), "unsafe")
        yield Hit(
            call,
            f"`{module.text.short(call)}` returns a moved copy, which is dropped: `{name}` stays where it was",
            f"Write `{name} = {module.text.short(call)}`. Only a `torch.nn.Module` is moved in place.",
            fix,
        )


def _is_tensor(module: Module, name: ast.Name) -> bool:
    if module.fact(name).is_tensor:
        return True
    # One of several things that a loop over batches unpacks: `for inputs, labels in loader`.
    bindings = module.scopes.reaching(name.id, name)
    if len(bindings) == 1 and bindings[0].kind == "assign" and _is_part_of_batch(module, bindings[0]):
        return True
    if len(bindings) != 1 or bindings[0].kind != "loop" or not bindings[0].path:
        return False
    loop = bindings[0].node
    return isinstance(loop, ast.For) and (
        loop in module.regions.training_loops or module.fact(loop.iter).kind == "DataLoader"
    )


def _is_part_of_batch(module: Module, binding: Binding) -> bool:
    """`x = batch["x"]` or `x, y = batch[0], batch[1]`, in the loop over the batches."""
    value = binding.value
    for index in binding.path:
        value = value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else None
    if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name):
        return False
    if not isinstance(value.slice, ast.Constant):
        return False
    batches = module.scopes.reaching(value.value.id, value)
    return len(batches) == 1 and batches[0].kind == "loop" and batches[0].node in module.regions.training_loops


RULE = Rule(
    "FO206",
    "moved-copy-dropped",
    "high",
    find,
    needs=(".to(", ".cuda(", ".cpu(", ".half(", ".float(", ".double(", ".bfloat16("),
    in_tests=True,
)
