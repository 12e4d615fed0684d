"""FO601: `torch.compile` called in the step: what it made is thrown away and made again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.compiled import COMPILE
from flatout.check.hints import sounds_like
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS, Loop


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(COMPILE):
        if isinstance(module.tree.parent(call), FUNCTIONS):
            continue  # `@torch.compile(...)`, below
        name = _wrapped_again(module, call)
        if name is not None:
            yield _twice(module, call, name)
        elif _runs_each_time(module, call) and not _varies(module, call):
            yield _again(module, call, module.text.short(call))
    for function in module.tree.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            of = decorator.func if isinstance(decorator, ast.Call) else decorator
            if module.qualified(of) == COMPILE and _runs_each_time(module, decorator):
                yield _again(module, decorator, f"@{module.text.short(decorator)} def {function.name}")


def _again(module: Module, node: ast.expr, shown: str) -> Hit:
    region = module.region(node)
    when = "in every epoch" if region is None else "on every step"
    if region is not None and region.kind == "forward":
        when = "in every forward pass"
    return Hit(
        node,
        f"`{shown}` runs {when}: each time it makes a new wrapper and looks up again what was compiled",
        "Compile once, before the loop (a layer: in `__init__`), and call the result here.",
    )


def _twice(module: Module, call: ast.Call, name: str) -> Hit:
    return Hit(
        call,
        f"the second round of the loop compiles `{name}` again, which gives a plain function: it has no "
        f"`{name}.parameters()`, `{name}.train()` or `{name}.state_dict()` any more",
        f"Move `{name} = {module.text.short(call)}` in front of the loop.",
        severity="high",
    )


def _wrapped_again(module: Module, call: ast.Call) -> str | None:
    """The model that the loop around replaces by its compiled self, round by round."""
    statement = module.tree.parent(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not call.args:
        return None
    name = ast.unparse(statement.targets[0])
    if ast.unparse(call.args[0]) != name or not _is_model(module, call.args[0]):
        return None
    loops = [loop for loop in module.tree.loops(call) if module.tree.function(loop) is module.tree.function(call)]
    if not loops or any(isinstance(above, ast.If) for above in _between(module, call, loops[0])):
        return None
    return name if _stores(loops[0], name) == 1 and not _leaves(loops[0]) else None


def _is_model(module: Module, node: ast.expr) -> bool:
    kind = module.fact(node).kind
    return kind == "Module" or (kind is None and sounds_like("Module", node))


def _between(module: Module, node: ast.AST, loop: Loop) -> Iterator[ast.AST]:
    for above in module.tree.ancestors(node):
        if above is loop:
            return
        yield above


def _stores(loop: Loop, name: str) -> int:
    return sum(
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == name
        for node in ast.walk(loop)
    )


def _leaves(loop: Loop) -> bool:
    """Whether the loop may end in its first round."""
    return any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))


def _runs_each_time(module: Module, node: ast.expr) -> bool:
    """Whether the call runs on every step: not under an `if`, as what is kept for later calls is."""
    region = module.region(node)
    if module.conditions(node):
        return False
    if region is None:
        return _is_run_by_epoch(module, node)
    function = module.tree.function(node)
    if function is not None and function.decorator_list and region.kind == "called":
        return False  # a cache
    loops = module.tree.loops(node)
    return region.loop is None or loops[0] is region.loop


def _is_run_by_epoch(module: Module, node: ast.expr) -> bool:
    """Whether the loop around holds a training loop, or what is compiled is given to a function that trains."""
    loops = module.tree.loops(node)
    return bool(loops) and any(module.tree.within(hot, loops[0]) for hot in module.regions.training_loops)


def _varies(module: Module, call: ast.Call) -> bool:
    """Whether what is compiled changes from round to round: then it has to be compiled again."""
    region = module.region(call)
    within = region.loop if region is not None else None
    if within is None:
        return False
    first, last = within.lineno, within.end_lineno or within.lineno
    for node in (node for value in _values(call) for node in ast.walk(value) if isinstance(node, ast.Name)):
        found = module.scopes.lookup(node.id, node)
        if found and any(first <= getattr(binding.node, "lineno", 0) <= last for binding in found[1]):
            return True
    return False


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


RULE = Rule("FO601", "compiled-again", "low", find, needs=("compile",))
