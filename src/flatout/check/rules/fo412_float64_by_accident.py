"""FO412: NumPy's default float64 goes into a model or to the GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument, keyword, read_move
from flatout.check.losses import loaded
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.words import words

FROM_NUMPY = ("torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.asarray")
# What gives float64 unless told otherwise, whatever the arguments; arange and full follow theirs.
MAKERS = frozenset(
    f"numpy.{name}"
    for name in words(
        "zeros ones linspace empty eye identity geomspace logspace random.rand random.randn random.random "
        "random.normal random.uniform random.random_sample random.standard_normal"
    )
)
_DTYPE_POSITION = {"zeros": 1, "ones": 1, "empty": 1, "identity": 1, "eye": 3, "linspace": 5}
DATASET = "torch.utils.data.TensorDataset"
_CASTS = re.compile(r"\.float\(\)|\.half\(\)|\.bfloat16\(\)|dtype|\.type\(|\.to\(\s*torch\.|type_as")
_WANTED = re.compile(r"\.double\(\)|set_default_dtype|DoubleTensor|torch\.float64|torch\.double")


def find(module: Module) -> Iterator[Hit]:
    if _WANTED.search(module.text.text):
        return
    for call in module.calls(*FROM_NUMPY):
        if not call.args or keyword(call, "dtype") is not None or len(call.args) > 1:
            continue
        maker = _float64_maker(module, call.args[0])
        if maker is None:
            continue
        goes_to = _goes_to(module, call)
        if goes_to is not None:
            yield Hit(
                call,
                f"`{module.text.of(call)}` is float64, NumPy's default for `{ast.unparse(maker.func)}`, and goes "
                f"{goes_to}",
                "Make it float32: `.float()` here, or `dtype=np.float32` where NumPy makes it.",
            )


def _float64_maker(module: Module, node: ast.expr) -> ast.Call | None:
    """The NumPy call that surely gave `node` its dtype float64."""
    made = module.origin(node)
    if not isinstance(made, ast.Call):
        return None
    name = (module.qualified(made.func) or "").replace("np.", "numpy.", 1)
    if name not in MAKERS or keyword(made, "dtype") is not None:
        return None
    position = _DTYPE_POSITION.get(name.rpartition(".")[2])
    if position is not None and argument(made, position, "dtype") is not None:
        return None
    if name.startswith("numpy.random.") and not made.args and not made.keywords:
        return None  # a plain number
    return made


def _goes_to(module: Module, call: ast.Call) -> str | None:
    """Where the tensor is used as it is: "to the GPU", "into `model`". None where it is cast, or not known."""
    here: ast.expr = call
    above = module.tree.parent(here)
    moved = False
    while isinstance(above, ast.Attribute):
        chained = module.tree.parent(above)
        if not isinstance(chained, ast.Call) or chained.func is not above:
            return None
        move = read_move(module.facts, chained)
        if move is not None and move.dtype is None and move.unclear is None and move.like is None:
            moved = moved or module.facts.of(chained).on_gpu
        elif above.attr not in ("view", "reshape", "unsqueeze", "requires_grad_", "clone", "contiguous", "pin_memory"):
            return None
        here, above = chained, module.tree.parent(chained)
    if isinstance(above, ast.Call) and module.fact(above.func).kind == "Module":
        return f"into `{ast.unparse(above.func)}`"
    if isinstance(above, ast.Call) and module.qualified(above.func) == DATASET:
        return None if _CASTS.search(module.text.text) else "into a `TensorDataset`"
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
        used = _use_of(module, above.targets[0], above)
        if used is _CAST:
            return None
        return used or ("to the GPU" if moved else None)
    return "to the GPU" if moved else None


_CAST = "cast"


def _use_of(module: Module, target: ast.Name, statement: ast.Assign) -> str | None:
    """What becomes of the variable: `_CAST` where any use casts it or could."""
    found = module.scopes.lookup(target.id, statement)
    scope = found[0] if found else None
    goes_to: str | None = None
    for name in loaded(module.tree.root if scope is None else scope):
        if name.id != target.id:
            continue
        above = module.tree.parent(name)
        if isinstance(above, ast.Attribute):
            chained = module.tree.parent(above)
            move = read_move(module.facts, chained) if isinstance(chained, ast.Call) else None
            if above.attr in ("float", "half", "type", "bfloat16", "type_as") or (
                move is not None and (move.dtype is not None or move.unclear is not None or move.like is not None)
            ):
                return _CAST
            if move is not None and isinstance(chained, ast.Call) and module.fact(chained).on_gpu:
                goes_to = goes_to or "to the GPU"
        elif isinstance(above, ast.Call) and module.fact(above.func).kind == "Module":
            goes_to = f"into `{ast.unparse(above.func)}`"
        elif (
            isinstance(above, ast.Call)
            and module.qualified(above.func) == DATASET
            and not _CASTS.search(module.text.text)
        ):
            goes_to = goes_to or "into a `TensorDataset`"
    return goes_to


RULE = Rule("FO412", "float64-by-accident", "medium", find, needs=("numpy",))
