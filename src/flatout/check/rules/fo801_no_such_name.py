"""FO801: a name that PyTorch does not have, in any version or in the one that the project asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_names import exists, nearest, removed_in
from flatout.check.tree import FUNCTIONS

# What people look for under names that do not exist, and what is there instead.
_ADVICE = (
    (
        re.compile(r"torch\.cuda\..*async", re.I),
        "Take it away: CUDA work is asynchronous already. For copies, pin the memory and pass `non_blocking=True`.",
    ),
    (
        re.compile(r"torch\.(cuda\.)?(enable_|set_|use_)?(amp|mixed_precision|fp16)\w*$", re.I),
        'Mixed precision is `with torch.autocast("cuda"):` and `torch.amp.GradScaler("cuda")`.',
    ),
    (
        re.compile(r"torch\.cuda\.(clear|free|release|reset)\w*$", re.I),
        "The cache is emptied by `torch.cuda.empty_cache()`, which frees no tensor that is still held.",
    ),
)
_FORGIVING = frozenset({"AttributeError", "ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def find(module: Module) -> Iterator[Hit]:
    made = _made_here(module)
    told: set[str] = set()
    for node, name in (*_attributes(module), *_imports(module)):
        missing = _missing_part(module, name)
        if missing is None or missing in told or any(missing == own or missing.startswith(f"{own}.") for own in made):
            continue
        if _is_guarded(module, node, missing):
            continue
        told.add(missing)
        yield _hit(module, node, missing)


def _hit(module: Module, node: ast.expr | ast.alias, name: str) -> Hit:
    gone = removed_in(name)
    message = f"PyTorch has no `{name}`" if gone is None else f"`{name}` is gone since PyTorch {gone[0]}.{gone[1]}"
    near = nearest(name, module.torch)
    for pattern, advice in _ADVICE:
        if pattern.match(name) and gone is None:
            return Hit(node, message, advice)
    remedy = (
        f"Nearest: {', '.join(f'`{other}`' for other in near)}." if near else "Take it away: it raises AttributeError."
    )
    return Hit(node, message, remedy)


def _attributes(module: Module) -> Iterator[tuple[ast.expr | ast.alias, str]]:
    """The longest dotted names that begin in torch, in source order."""
    for node in module.tree.nodes(ast.Attribute):
        if isinstance(module.tree.parent(node), ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name = module.names.written(node)
        if name is not None and name.startswith("torch."):
            yield node, name


def _imports(module: Module) -> Iterator[tuple[ast.expr | ast.alias, str]]:
    for node in module.tree.nodes(ast.Import):
        yield from ((alias, alias.name) for alias in node.names if alias.name.startswith("torch."))
    for node_from in module.tree.nodes(ast.ImportFrom):
        base = node_from.module or ""
        if node_from.level == 0 and (base == "torch" or base.startswith("torch.")):
            yield from ((alias, f"{base}.{alias.name}") for alias in node_from.names if alias.name != "*")


def _missing_part(module: Module, name: str) -> str | None:
    """The shortest beginning of `name` that surely does not exist."""
    if exists(name, module.torch) is not False:
        return None
    parts = name.split(".")
    return next(
        (part for end in range(2, len(parts) + 1) if exists(part := ".".join(parts[:end]), module.torch) is False), None
    )


def _made_here(module: Module) -> set[str]:
    """Names that the module itself puts into torch."""
    made = set()
    for node in module.tree.nodes(ast.Attribute):
        if not isinstance(node.ctx, ast.Load) and (name := module.names.written(node)):
            made.add(name)
    for call in module.tree.nodes(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) > 1:
            owner, attribute = module.names.written(call.args[0]), module.constant(call.args[1])
            if owner and isinstance(attribute, str):
                made.add(f"{owner}.{attribute}")
    return made


def _is_guarded(module: Module, node: ast.AST, name: str) -> bool:
    """Whether the program is ready for the name to be missing: a `try`, a question about versions or with `hasattr`."""
    last = name.rpartition(".")[2]
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, ast.Try) and below in above.body and any(_forgives(handler) for handler in above.handlers):
            return True
        if isinstance(above, ast.If | ast.IfExp | ast.BoolOp) and _asks(ast.unparse(above), last):
            return True
        if isinstance(above, FUNCTIONS) and _asks(module.text.of(above), last):
            return True
        below = above
    # `_has_it = hasattr(torch.cuda, "it")` somewhere above.
    return re.search(rf"(hasattr|getattr)\([^)]*[\"']{re.escape(last)}[\"']", module.text.text) is not None


def _asks(text: str, last: str) -> bool:
    return re.search(rf"version|hasattr|{re.escape(last)}[\"']|TORCH_|is_torch|_available|_AVAILABLE", text) is not None


def _forgives(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _FORGIVING for kind in types)


RULE = Rule("FO801", "no-such-name", "high", find, needs=("torch",), in_tests=True)
