"""FO408: TF32 switched through PyTorch's new `fp32_precision` and through its old flags in one program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.compatibility import chosen_by_version
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import exclude_each_other

# Old flag or function -> the settings of the new interface that it shares its state with.
MATMUL = ("torch.backends.cuda.matmul.fp32_precision", "torch.backends.fp32_precision")
CUDNN = tuple(f"torch.backends.cudnn.{part}fp32_precision" for part in ("", "conv.", "rnn."))
OLD = {
    "torch.backends.cuda.matmul.allow_tf32": MATMUL,
    "torch.set_float32_matmul_precision": MATMUL,
    "torch.get_float32_matmul_precision": MATMUL,
    "torch.backends.cudnn.allow_tf32": CUDNN,
}

_WORDS = frozenset(name.rpartition(".")[2] for name in OLD)


def find(module: Module) -> Iterator[Hit]:
    new = [
        node
        for node in module.tree.nodes(ast.Attribute)
        if node.attr == "fp32_precision" and isinstance(node.ctx, ast.Store) and module.qualified(node)
    ]
    if not new:
        return
    for old in module.tree.nodes(ast.Attribute):
        name = module.qualified(old) if old.attr in _WORDS else None
        if name not in OLD or chosen_by_version(module, old):
            continue
        for node in new:
            if module.qualified(node) in OLD[name] and not exclude_each_other(module, old, node):
                yield _hit(module, old, node)
                break


def _hit(module: Module, old: ast.Attribute, new: ast.Attribute) -> Hit:
    reads = isinstance(old.ctx, ast.Load) and not old.attr.startswith("set_")
    name, other = ast.unparse(old), ast.unparse(new)
    what = "reading it" if reads else "reading either back, as torch.compile does,"
    return Hit(
        old,
        f"`{name}` is the old switch of TF32 and `{other}` (line {new.lineno}) the new one: where they differ, {what} "
        "raises RuntimeError",
        f"Use `{other}` alone.",
        evidence={"other_line": new.lineno},
        severity="high" if reads else None,
    )


RULE = Rule("FO408", "tf32-apis-mixed", "medium", find, needs=("fp32_precision",), in_tests=True)
