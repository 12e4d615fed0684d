"""From the operations of a compiled region to the loops that a compiler makes of them.

Norms and softmax come apart into a reduction and a loop over all elements, as inductor's decompositions have it
(torch/_decomp/decompositions.py, torch/_inductor/decomposition.py); so does the bias of a convolution. Operators whose
formula (`flatout.costs`) is one pass over memory are loops; all others, and those without a formula, stay what eager
code launches. Views are nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from flatout.costs import Cost, cost
from flatout.recording.operation import Argument, Operation, TensorType
from flatout.recording.tape import Inside, Piece
from flatout.timeline.compiled.node import Kind, Node, Value

_LOOPS = frozenset(("pointwise", "random", "fill", "copy", "strided", "softmax", "softmax_backward", "layer_norm"))
_OVERWRITES = frozenset(
    f"aten::{name}"
    for name in (
        "copy_", "fill_", "zero_", "random_", "normal_", "uniform_", "bernoulli_", "_foreach_zero_", "_foreach_copy_"
    )
)  # fmt: skip
MOST_CONCATENATED = 8
"""A concatenation of more is no loop: each part is written into its place (torch/_inductor/config.py,
`max_pointwise_cat_inputs`)."""

Named: TypeAlias = tuple[TensorType, Piece]


class Reader:
    """Follows the values of regions from operation to operation.

    `ends` has for each call what the storages that it wrote into hold at its end.
    """

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}
        self._costs: dict[int, Cost] = {}
        self._nodes: list[Node] = []
        self._call = self._position = 0
        self.ends: dict[int, dict[int, Value]] = {}

    def nodes(self, position: int, event: Inside, operation: Operation) -> list[Node]:
        """The nodes of one operation."""
        self._nodes = []
        self._position, self._call = position, event.call
        inputs = list(zip(operation.inputs(), event.inputs))
        outputs = list(zip(operation.outputs, event.outputs))
        base = operation.base
        split = _SPLIT.get(base)
        known = self._cost(operation)
        if not known.kernels:
            return []
        if split is not None:
            split(self, operation, inputs, outputs)
        elif not known.known:
            self._extern(operation, inputs, outputs)
        elif base.startswith("aten::_foreach_"):
            self._loop("pointwise", operation, inputs, outputs)
        elif len(known.kernels) == 1 and known.kernels[0].kind == "reduction":
            self._reduction(operation, inputs, outputs)
        elif len(known.kernels) == 1 and known.kernels[0].kind in _LOOPS:
            self._loop("pointwise", operation, inputs, outputs)
        elif known.kernels[0].kind in ("pooling", "pooling_backward"):
            self._loop("window", operation, inputs, outputs)
        elif base in _PICKING:
            self._picked(operation, inputs, outputs)
        else:
            self._extern(operation, inputs, outputs)
        return self._nodes

    def _cost(self, operation: Operation) -> Cost:
        found = self._costs.get(id(operation))
        if found is None:
            found = self._costs[id(operation)] = cost(operation)
        return found

    def _node(self, kind: Kind, total: int, rows: int = 0, *, inner: bool = True) -> Node:
        node = Node(kind, self._call, self._position, total, rows, inner=inner)
        self._nodes.append(node)
        return node

    def _value(self, piece: Piece) -> Value:
        number = piece[0]
        value = self._values.get(number)
        if value is None:
            value = Value(number)
            if number >= 0:
                self._values[number] = value
        return value

    def _read(self, node: Node, tensors: Iterable[Named]) -> None:
        for tensor, piece in tensors:
            if tensor.host:
                continue
            key = (piece[1], tensor.shape, tensor.strides)
            node.read(self._value(piece), key, min(tensor.bytes, node.most_bytes or tensor.bytes))

    def _make(self, node: Node, tensors: Iterable[Named]) -> None:
        for tensor, piece in tensors:
            self._holds(node.make(piece[0], tensor.bytes))

    def _write(self, node: Node, tensors: Iterable[Named]) -> None:
        """Into memory that is there already. What a write to a part of it leaves as it was has to be in memory too."""
        for tensor, piece in tensors:
            before = self._values.get(piece[0])
            value = node.make(piece[0], tensor.bytes)
            if before is not None and before.size_bytes > tensor.bytes:
                node.read(before, "rest", 0)
                node.alone = True
                value.size_bytes = before.size_bytes
            self._holds(value)

    def _holds(self, value: Value) -> None:
        if value.storage >= 0:
            self._values[value.storage] = value
            self.ends.setdefault(self._call, {})[value.storage] = value

    def _loop(self, kind: Kind, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        targets = _targets(operation, inputs)
        made = [*outputs, *targets]
        listed = operation.base.startswith("aten::_foreach_")
        total = (sum if listed else max)(tensor.count for tensor, _ in made) if made else 0
        node = self._node(kind, total)
        skipped = {id(named) for named in targets} if operation.base in _OVERWRITES else set()
        self._read(node, (named for named in inputs if id(named) not in skipped))
        self._make(node, outputs)
        self._write(node, targets)
        node.repeatable = kind == "pointwise" and not self._draws(operation)
        parts = operation.argument(0)
        node.alone |= operation.base == "aten::cat" and isinstance(parts, tuple) and len(parts) > MOST_CONCATENATED

    def _draws(self, operation: Operation) -> bool:
        return any(kernel.kind == "random" for kernel in self._cost(operation).kernels)

    def _extern(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        node = self._node("extern", 0)
        node.operation = operation
        self._read(node, inputs)
        self._make(node, outputs)
        self._write(node, _targets(operation, inputs))

    def _reduction(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        total = max((tensor.count for tensor, _ in inputs), default=1)
        rows = max((tensor.count for tensor, _ in outputs), default=1)
        dims = operation.numbers(1)
        last = len(inputs[0][0].shape) - 1 if inputs else 0
        inner = rows == 1 or not dims or -1 in dims or last in dims
        node = self._node("reduction", total, rows, inner=inner)
        self._read(node, inputs)
        self._make(node, outputs)

    def _picked(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """Rows by number: of the table only what is picked is read."""
        total = max(tensor.count for tensor, _ in outputs)
        node = self._node("pointwise", total)
        node.most_bytes = float(sum(tensor.bytes for tensor, _ in outputs))
        self._read(node, inputs)
        self._make(node, outputs)

    # Operators that come apart.

    def normalized(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """Layer, group and RMS norm: moments of each row, then a loop."""
        x, moments = inputs[0], outputs[1:]
        rows = moments[0][0].count
        self._make_moments(x, rows, moments)
        self._finish([*inputs, *moments], outputs[:1])

    def softmax(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """Largest and sum of each row, then a loop."""
        x = inputs[0]
        dim = operation.argument(1, -1)
        size = x[0].shape[dim] if isinstance(dim, int) and x[0].shape else 1
        self._finish([*inputs, self._make_moments(x, x[0].count // max(size, 1))], outputs)

    def softmax_backward(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        dim = operation.argument(2, -1)
        shape = inputs[0][0].shape
        size = shape[dim] if isinstance(dim, int) and shape else 1
        self._finish([*inputs, self._sums(inputs, inputs[0][0].count // max(size, 1))], outputs)

    def batch_norm(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """In training moments of each channel first; in evaluation a loop alone."""
        training = operation.argument(5, True) is not False or operation.base.endswith("with_update")
        x = inputs[0]
        if training:
            self._make_moments(x, x[0].shape[1], outputs[1:3], inner=False)
            self._write(self._nodes[-1], _targets(operation, inputs) or inputs[3:5])
            self._finish([*inputs[:3], *outputs[1:3]], outputs[:1])
        else:
            self._finish(inputs, outputs[:1])

    def normalized_backward(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """Two sums of each row for the gradient of the input; those of weight and bias are sums over rows."""
        x = inputs[1]
        groups = operation.base == "aten::native_group_norm_backward"
        rows = inputs[2][0].count
        self._finish([*inputs, self._sums(inputs, rows)], outputs[:1])
        if len(outputs) > 1:
            columns = x[0].shape[1] if groups else max(outputs[1][0].count, 1)
            node = self._node("reduction", x[0].count, columns, inner=False)
            self._read(node, inputs)
            self._make(node, outputs[1:])

    def batch_norm_backward(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """Two sums of each channel, which are the gradients of weight and bias, then a loop."""
        x = max(inputs, key=lambda named: named[0].count)
        node = self._node("reduction", x[0].count, x[0].shape[1], inner=False)
        self._read(node, inputs)
        self._make(node, outputs[1:])
        self._finish([*inputs, *outputs[1:]], outputs[:1])

    def convolution(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """The bias is added by a loop."""
        bias = operation.argument(2)
        if not isinstance(bias, TensorType):
            self._extern(operation, inputs, outputs)
            return
        arguments: tuple[Argument, ...] = (*operation.arguments[:2], None, *operation.arguments[3:])
        self._extern(msgspec.structs.replace(operation, arguments=arguments), inputs[:2], outputs)
        self._finish([outputs[0], inputs[2]], outputs)

    def picked_loss(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """One number of each row."""
        count = inputs[1][0].count
        node = self._node("reduction", count, 1)
        node.most_bytes = 32.0 * count
        self._read(node, inputs)
        self._make(node, outputs)

    def picked_loss_backward(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """All zeros but one number of each row; of the scores only the shape is looked at."""
        self._finish([inputs[0], *inputs[2:]], outputs)

    def compared(self, operation: Operation, inputs: list[Named], outputs: list[Named]) -> None:
        """A loss over all elements."""
        if outputs and outputs[0][0].count < inputs[0][0].count:
            self._reduction(operation, inputs, outputs)
        else:
            self._finish(inputs, outputs)

    def _make_moments(self, x: Named, rows: int, outputs: list[Named] | None = None, *, inner: bool = True) -> Named:
        node = self._node("reduction", x[0].count, rows, inner=inner)
        self._read(node, [x])
        if outputs:
            self._make(node, outputs)
            return outputs[0]
        return self._hidden(node, rows)

    def _sums(self, inputs: list[Named], rows: int) -> Named:
        node = self._node("reduction", inputs[0][0].count, rows)
        self._read(node, inputs)
        return self._hidden(node, rows)

    def _hidden(self, node: Node, rows: int) -> Named:
        """Something of each row, float32, that eager code never writes."""
        number = -2 - len(self._values)
        self._values[number] = node.make(number, 4 * rows)
        return TensorType((rows,), (1,), "float32"), (number, 0)

    def _finish(self, inputs: Iterable[Named], outputs: list[Named]) -> None:
        node = self._node("pointwise", max((tensor.count for tensor, _ in outputs), default=0))
        self._read(node, inputs)
        self._make(node, outputs)


def _targets(operation: Operation, inputs: list[Named]) -> list[Named]:
    """Those of the inputs that the operation writes into."""
    found: list[Named] = []
    at = 0
    for position, argument in enumerate(operation.arguments):
        count = _count(argument)
        if position in operation.written:
            found += inputs[at : at + count]
        at += count
    for name, argument in operation.keywords:
        count = _count(argument)
        if name == "out":
            found += inputs[at : at + count]
        at += count
    return found


def _count(argument: Argument) -> int:
    if isinstance(argument, tuple):
        return sum(isinstance(item, TensorType) for item in argument)
    return int(isinstance(argument, TensorType))


_Split: TypeAlias = Callable[[Reader, Operation, list[Named], list[Named]], None]
_SPLIT: dict[str, _Split] = {
    f"aten::{name}": method
    for names, method in (
        (("native_layer_norm", "native_group_norm", "_fused_rms_norm"), Reader.normalized),
        (("_softmax", "_log_softmax", "_safe_softmax"), Reader.softmax),
        (("_softmax_backward_data", "_log_softmax_backward_data"), Reader.softmax_backward),
        (
            ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"),
            Reader.batch_norm,
        ),
        (
            ("native_layer_norm_backward", "native_group_norm_backward", "_fused_rms_norm_backward"),
            Reader.normalized_backward,
        ),
        (
            ("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward"),
            Reader.batch_norm_backward,
        ),
        (("convolution", "_convolution"), Reader.convolution),
        (("nll_loss_forward", "nll_loss2d_forward"), Reader.picked_loss),
        (("nll_loss_backward", "nll_loss2d_backward"), Reader.picked_loss_backward),
        (("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"), Reader.compared),
    )
    for name in names
}
_PICKING = frozenset(f"aten::{name}" for name in ("embedding", "index_select", "gather", "index", "take"))
