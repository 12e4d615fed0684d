"""Attention written out: softmax of a product of queries and keys, times the values."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.ranks import last_word
from flatout.check.words import words

if TYPE_CHECKING:
    from flatout.check.module import Module

_PRODUCTS = frozenset(words("matmul bmm baddbmm einsum"))
_CASTS = frozenset(words("to type type_as float half bfloat16 contiguous clone nan_to_num"))
_MASKS = frozenset(words("masked_fill masked_fill_ where"))
_TURNS = frozenset(words("transpose permute t swapaxes mT T mH"))
_SHAPES = _TURNS | frozenset(words("view reshape contiguous unsqueeze squeeze flatten to type_as float"))
_LEARNED = "temperature"  # a parameter a head, as in attention over channels: the fused operation takes one number
_DEEPEST = 12


class Attention(NamedTuple):
    """`node` is the last product; the rest are the operands. `masked`, `dropped`: what stands in between."""

    node: ast.expr
    query: ast.expr
    key: ast.expr
    value: ast.expr
    masked: bool
    dropped: bool


class _Trace:
    """One walk back from a product: the statements on the way, and what was met."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.statements: set[ast.stmt] = set()
        self.names: set[str] = set()
        self.masked = False
        self.dropped = False
        self.scores: ast.expr | None = None

    def weights(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether `node` is surely a softmax of scores, perhaps with dropout."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, ast.Name):
            return self._through(node, depth, self.weights)
        if not isinstance(node, ast.Call):
            return False
        word = _called(node)
        if word == "softmax":
            inner = _operand(node)
            return inner is not None and _over_last(node) and self._scores(inner, depth + 1)
        if "drop" in word and node.args:
            self.dropped = True
            return self.weights(node.args[0], depth + 1)
        if word in _CASTS and isinstance(node.func, ast.Attribute):
            return self.weights(node.func.value, depth + 1)
        return False

    def _scores(self, node: ast.expr, depth: int) -> bool:
        """Whether `node` is surely a product of two tensors, scaled, shifted or masked."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, ast.Name):
            return self._through(node, depth, self._scores)
        if product(node) is not None:
            self.scores = node
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.Add | ast.Sub):
            if any(_LEARNED in ast.unparse(side) for side in (node.left, node.right)):
                return False
            self.masked = self.masked or isinstance(node.op, ast.Add | ast.Sub)
            return self._scores(node.left, depth + 1) or self._scores(node.right, depth + 1)
        if isinstance(node, ast.Call):
            word = _called(node)
            if word in _MASKS:
                self.masked = True
                owner = node.func.value if isinstance(node.func, ast.Attribute) else None
                inner = [owner] if word != "where" and owner is not None else node.args[1:]
                return any(self._scores(item, depth + 1) for item in inner)
            if word in _CASTS | {"mul", "div", "add"} and isinstance(node.func, ast.Attribute):
                return self._scores(node.func.value, depth + 1)
        return False

    def _through(self, name: ast.Name, depth: int, follow: object) -> bool:
        """Follow a variable: everything that it may be must lead on."""
        assert callable(follow)
        bindings = self.module.scopes.reaching(name.id, name)
        if not bindings or len(bindings) > 6:
            return False
        for binding in bindings:
            if binding.kind not in ("assign", "augment") or binding.path or binding.value is None:
                return False
            statement = self.module.tree.statement(binding.node)
            if statement in self.statements:
                continue
            self.statements.add(statement)
            self.names.add(name.id)
            if isinstance(binding.node, ast.AugAssign):
                self.masked = self.masked or isinstance(binding.node.op, ast.Add | ast.Sub)
                target = binding.node.target
                if not isinstance(target, ast.Name) or not self._before(target, binding.node, depth, follow):
                    return False
            elif not follow(binding.value, depth + 1):
                return False
        return True

    def _before(self, name: ast.Name, node: ast.AST, depth: int, follow: object) -> bool:
        """What the variable was before an augmented assignment."""
        assert callable(follow)
        earlier = [item for item in self.module.scopes.reaching(name.id, node) if item.node is not node]
        for binding in earlier:
            statement = self.module.tree.statement(binding.node)
            self.statements.add(statement)
            if isinstance(binding.node, ast.AugAssign):
                if not self._before(name, binding.node, depth + 1, follow):
                    return False
            elif binding.value is None or binding.path or not follow(binding.value, depth + 1):
                return False
        return bool(earlier)


def attentions(module: Module) -> Iterator[Attention]:
    """Every attention that surely is one, and whose weights are used for nothing else."""
    reads: defaultdict[str, list[ast.Name]] = defaultdict(list)
    for name in module.tree.nodes(ast.Name):
        if isinstance(name.ctx, ast.Load):
            reads[name.id].append(name)
    for node in (*module.tree.nodes(ast.BinOp), *module.tree.nodes(ast.Call)):
        operands = product(node)
        if operands is None:
            continue
        trace = _Trace(module)
        if not trace.weights(operands[0]) or trace.scores is None:
            continue
        inner = product(trace.scores)
        assert inner is not None
        key = _turned(module, inner[1], is_einsum=_called(trace.scores) == "einsum")
        if key is None or not _is_plain(operands[1]) or not _only_used_here(module, trace, node, operands[0], reads):
            continue
        yield Attention(node, _unscaled(inner[0]), _unscaled(key), operands[1], trace.masked, trace.dropped)


def product(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The operands of a matrix product: `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, `torch.einsum("...", a, b)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or (word := _called(node)) not in _PRODUCTS:
        return None
    if word == "einsum":
        return (node.args[1], node.args[2]) if len(node.args) == 3 else None
    if word == "baddbmm":
        return (node.args[1], node.args[2]) if len(node.args) > 2 else None
    if len(node.args) == 2:
        return node.args[0], node.args[1]
    if len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        return node.func.value, node.args[0]
    return None


def _called(node: ast.expr) -> str:
    """The last word of what a call calls: `softmax` of `self.softmax(x)` and of `nn.Softmax(dim=-1)(x)`."""
    if not isinstance(node, ast.Call):
        return ""
    func = node.func
    return _called(func) if isinstance(func, ast.Call) else last_word(func).lower()


def _operand(call: ast.Call) -> ast.expr | None:
    """What a softmax is taken of: `F.softmax(x, -1)`, `x.softmax(-1)`, `self.softmax(x)`."""
    first = call.args[0] if call.args else None
    if first is not None and not isinstance(first, ast.Constant | ast.UnaryOp):
        return first
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _over_last(call: ast.Call) -> bool:
    """Whether a softmax may be over the last dimension: 0 and 1 are batch and heads."""
    values = [item.value for item in call.keywords if item.arg == "dim"]
    values += [value for value in call.args if isinstance(value, ast.Constant)]
    return not any(isinstance(value, ast.Constant) and value.value in (0, 1) for value in values)


def _turned(module: Module, node: ast.expr, *, is_einsum: bool, depth: int = 4) -> ast.expr | None:
    """The keys of `k.transpose(-2, -1)`; None where the right side of the product is not known to be turned."""
    if is_einsum:
        return node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TURNS:
        turned = node.func.value
        # `torch.transpose(k, 1, 2)` and `k.transpose(1, 2)`.
        return node.args[0] if isinstance(turned, ast.Name) and module.qualified(turned) == "torch" else turned
    if isinstance(node, ast.Attribute) and node.attr in _TURNS:
        return node.value
    if isinstance(node, ast.Name) and depth:
        origin = module.origin(node)
        if origin is not node and _turned(module, origin, is_einsum=False, depth=depth - 1) is not None:
            return node
    return None


def _is_plain(node: ast.expr) -> bool:
    """Whether the values are a variable, perhaps turned or reshaped: not the result of another computation."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        node = node.func.value
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _unscaled(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        node = node.left
    return node


def _only_used_here(
    module: Module, trace: _Trace, last: ast.expr, weights: ast.expr, reads: dict[str, list[ast.Name]]
) -> bool:
    """Whether scores and weights go nowhere else: they are not returned, kept or looked at."""
    function = module.tree.function(last)
    begin, end = (function.lineno, function.end_lineno or 0) if function is not None else (0, sys.maxsize)
    for node in (node for name in trace.names for node in reads[name]):
        if not begin <= node.lineno <= end:
            continue
        if module.tree.within(node, weights):
            continue
        statement = module.tree.statement(node)
        if statement in trace.statements or _masks_in_place(statement):
            continue
        if not any(
            module.tree.statement(item.node) in trace.statements for item in module.scopes.reaching(node.id, node)
        ):
            continue  # another value under the same name
        return False
    return True


def _masks_in_place(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and _called(statement.value) in ("masked_fill_", "div_", "mul_")
