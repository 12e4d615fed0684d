"""FO401: `torch.cuda.amp.*` and `torch.cpu.amp.*`, which PyTorch deprecates since 2.4 in favour of `torch.amp.*`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.compatibility import chosen_by_version
from flatout.check.fixes import add_argument, insert_after, replace
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scopes import Binding
from flatout.source import Edit, Fix

OLD = {
    f"torch.{device}.amp.{name}": device
    for device, names in {"cuda": "autocast GradScaler custom_fwd custom_bwd", "cpu": "autocast GradScaler"}.items()
    for name in names.split()
}
# torch.cuda.amp.autocast(enabled, dtype, cache_enabled), where torch.amp.autocast has the device and the dtype first.
AUTOCAST_ARGUMENTS = ("enabled", "dtype", "cache_enabled")
_MODULE = re.compile(r"torch\s*\.\s*(?:cuda|cpu)\s*\.\s*amp(?:\s*\.\s*(?:grad_scaler|autocast_mode))?")


def find(module: Module) -> Iterator[Hit]:
    if not module.torch_at_least(2, 4):
        return
    imports: list[ast.ImportFrom | ast.Import] = [*module.tree.nodes(ast.ImportFrom), *module.tree.nodes(ast.Import)]
    for statement in imports:
        yield from _imported(module, statement)
    for node in module.tree.nodes(ast.Attribute):
        if module.names.written(node) in OLD and _starts_at_torch(module, node) and not chosen_by_version(module, node):
            yield from _spelled_out(module, node)


# --- torch.cuda.amp.autocast() ----------------------------------------------------------------------------------------


def _starts_at_torch(module: Module, node: ast.expr) -> bool:
    """Whether the whole name is written out: `torch.cuda.amp.autocast`, not `amp.autocast`."""
    return ast.unparse(node) == module.names.written(node)


def _spelled_out(module: Module, node: ast.Attribute) -> Iterator[Hit]:
    name = ast.unparse(node)
    new = f"torch.amp.{node.attr}"
    edit = replace(module, node, new)
    above = module.tree.parent(node)
    if isinstance(above, ast.Call) and above.func is node:
        edits = _edits_of_call(module, above, node.attr, OLD[name])
        yield _hit(node, name, node.attr, OLD[name], (edit, *edits) if edits is not None else None)
    elif _decorates(module, node):
        yield _hit(node, name, node.attr, OLD[name], (replace(module, node, f'{new}(device_type="{OLD[name]}")'),))


def _hit(node: ast.expr | ast.alias, name: str, last: str, device: str, edits: tuple[Edit, ...] | None) -> Hit:
    new = f"torch.amp.{last}({_device_argument(last, device)})"
    fix = Fix(f"Write `{new}`", edits) if edits else None
    return Hit(node, f"`{name}` is deprecated since PyTorch 2.4", f"Write `{new}`.", fix)


def _device_argument(last: str, device: str) -> str:
    return f'device_type="{device}"' if last.startswith("custom") else f'"{device}"'


def _decorates(module: Module, node: ast.expr) -> bool:
    above = module.tree.parent(node)
    return (
        isinstance(above, ast.FunctionDef)
        and node in above.decorator_list
        and (module.names.written(node) or "").rpartition(".")[2].startswith("custom")
    )


def _edits_of_call(module: Module, call: ast.Call, last: str, device: str) -> list[Edit] | None:
    """The edits that make a call name its device; None where they cannot be told."""
    if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
        return None
    try:
        if last.startswith("custom"):
            content = f'device_type="{device}"'
            return [add_argument(module, call, content)] if not call.args else None
        positional = AUTOCAST_ARGUMENTS if last == "autocast" else ()
        edits = [_insert_before(module, item, f"{name}=") for item, name in zip(call.args, positional)]
        if not call.args and not call.keywords:
            return [add_argument(module, call, f'"{device}"')]
        first = min(
            [module.text.span(item).start for item in call.args]
            + [module.text.span(item).start for item in call.keywords]
        )
        if edits:
            return [Edit(first, first, f'"{device}", {edits[0].content}'), *edits[1:]]
        return [Edit(first, first, f'"{device}", ')]
    except ValueError:
        return None


def _insert_before(module: Module, node: ast.expr, content: str) -> Edit:
    start = module.text.span(node).start
    if module.text.text[:start].rstrip().endswith("(") and isinstance(module.tree.parent(node), ast.Call):
        call = module.tree.parent(node)
        assert isinstance(call, ast.Call)
        if module.text.text[module.text.span(call.func).end : start].count("(") > 1:
            raise ValueError("the argument stands in parentheses of its own")
    return Edit(start, start, content)


# --- from torch.cuda.amp import autocast, GradScaler ------------------------------------------------------------------


def _imported(module: Module, statement: ast.ImportFrom | ast.Import) -> Iterator[Hit]:
    """One hit for an import whose names are called; its fix moves the import and every use at once."""
    uses: list[tuple[ast.expr, str]] = []
    whole = True
    for alias in statement.names:
        found = _old_names_of(module, statement, alias)
        if found is None:
            whole = False  # the statement brings in something else, too
            continue
        uses += found
    if not uses or chosen_by_version(module, statement):
        return
    needed = [use for use in uses if _needs_device(module, use[0])]
    if not needed:
        return
    names = list(dict.fromkeys(name for _, name in needed))
    device = OLD[names[0]]
    said = " and ".join(f"`{name}`" for name in names)
    instead = ", ".join(
        f"`torch.amp.{name.rpartition('.')[2]}({_device_argument(name.rpartition('.')[2], device)})`" for name in names
    )
    # A module that is used in any other way, too, must stay what it is: `f(amp)`, `amp.common`, `__all__`.
    whole = whole and all(_has_no_other_use(module, statement, alias) for alias in statement.names)
    edits = _edits_of_import(module, statement, uses) if whole else None
    yield Hit(
        next(alias for alias in statement.names if _old_names_of(module, statement, alias)),
        f"{said} {'is' if len(names) == 1 else 'are'} deprecated since PyTorch 2.4",
        f"Import from `torch.amp` and name the device: {instead}.",
        Fix("Import from `torch.amp`", tuple(edits)) if edits else None,
    )


def _old_names_of(
    module: Module, statement: ast.ImportFrom | ast.Import, alias: ast.alias
) -> list[tuple[ast.expr, str]] | None:
    """The uses of what `alias` imports from the old modules, with their old names; None if it is something else."""
    if isinstance(statement, ast.Import):
        if alias.name not in ("torch.cuda.amp", "torch.cpu.amp") or alias.asname is None:
            return None
        return _uses(module, statement, alias.asname, alias.name)
    if statement.level:
        return None
    full = f"{statement.module}.{alias.name}"
    full = full.replace(".amp.grad_scaler.", ".amp.").replace(".amp.autocast_mode.", ".amp.")
    if full not in OLD and full not in ("torch.cuda.amp", "torch.cpu.amp"):
        return None
    return _uses(module, statement, alias.asname or alias.name, full)


def _has_no_other_use(module: Module, statement: ast.ImportFrom | ast.Import, alias: ast.alias) -> bool:
    found = _old_names_of(module, statement, alias) or []
    bound = alias.asname or alias.name
    names = [node for node in module.tree.nodes(ast.Name) if node.id == bound and isinstance(node.ctx, ast.Load)]
    exported = any(isinstance(node.value, str) and node.value == bound for node in module.tree.nodes(ast.Constant))
    return len(found) == len(names) and not exported


def _uses(module: Module, statement: ast.stmt, bound: str, full: str) -> list[tuple[ast.expr, str]]:
    found: list[tuple[ast.expr, str]] = []
    for name in module.tree.nodes(ast.Name):
        if name.id != bound or not isinstance(name.ctx, ast.Load):
            continue
        owner = module.scopes.lookup(bound, name)
        if owner is None or not _only(owner[1], statement):
            continue
        if full in OLD:
            found.append((name, full))
            continue
        above = module.tree.parent(name)
        if isinstance(above, ast.Attribute) and f"{full}.{above.attr}" in OLD:
            found.append((above, f"{full}.{above.attr}"))
    return found


def _only(bindings: list[Binding], statement: ast.stmt) -> bool:
    return all(binding.node is statement for binding in bindings)


def _needs_device(module: Module, node: ast.expr) -> bool:
    """Whether the use warns: a call, or the bare decorator. An annotation or isinstance does not."""
    above = module.tree.parent(node)
    return (isinstance(above, ast.Call) and above.func is node) or _decorates(module, node)


def _edits_of_import(
    module: Module, statement: ast.ImportFrom | ast.Import, uses: list[tuple[ast.expr, str]]
) -> list[Edit] | None:
    start, end = module.text.span(statement)
    text = module.text.text[start:end]
    match = _MODULE.search(text)
    if match is not None:
        edits = [Edit(start + match.start(), start + match.end(), "torch.amp")]
    else:  # from torch.cuda import amp
        match = re.search(r"torch\s*\.\s*(?:cuda|cpu)\b", text)
        if match is None or len(statement.names) > 1:
            return None
        edits = [Edit(start + match.start(), start + match.end(), "torch")]
    for node, name in uses:
        last = name.rpartition(".")[2]
        above = module.tree.parent(node)
        if isinstance(above, ast.Call) and above.func is node:
            more = _edits_of_call(module, above, last, OLD[name])
            if more is None:
                return None
            edits += more
        elif _decorates(module, node):
            edits.append(insert_after(module, node, f'(device_type="{OLD[name]}")'))
        elif not _is_type(module, node):
            return None  # passed on, to be called elsewhere
    return edits


def _is_type(module: Module, node: ast.expr) -> bool:
    """Whether the class is only named as a type: in an annotation or isinstance."""
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, ast.arg):
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return below is above.returns
        if isinstance(above, ast.AnnAssign):
            return below is above.annotation
        if isinstance(above, ast.Call):
            return isinstance(above.func, ast.Name) and above.func.id == "isinstance"
        below = above
    return False


RULE = Rule("FO401", "amp-old-spelling", "low", find, needs=(".amp", "import amp"))
