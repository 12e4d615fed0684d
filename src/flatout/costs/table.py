"""The one table from operators to formulas, and the cost of an operation by it.

A formula takes an `Operation` and gives the kernels that it launches. Its tensors are those of PyTorch's schema, in its
order. An operator without a formula is costed by bytes, and `Cost.known` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flatout.costs.cost import FREE, Cost, Kernel
from flatout.recording.operation import Operation, TensorType

Formula: TypeAlias = "Callable[[Operation], tuple[Kernel, ...]]"

formulas: dict[str, Formula] = {}


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula for these operators of ATen, named without overload, as ``add``."""

    def register(function: Formula) -> Formula:
        for name in names:
            full = f"aten::{name}"
            assert full not in formulas, f"{full} has two formulas"
            formulas[full] = function
        return function

    return register


_FREE = frozenset(
    f"aten::{name}"
    for name in (
        "view", "_unsafe_view", "t", "transpose", "permute", "expand", "slice", "select", "as_strided", "as_strided_",
        "unsqueeze", "squeeze", "detach", "alias", "split", "split_with_sizes", "unbind", "_reshape_alias", "reshape",
        "view_as_real", "view_as_complex", "diagonal", "unfold", "lift_fresh", "empty", "empty_strided", "empty_like",
        "new_empty", "new_empty_strided", "empty_permuted", "resize_", "set_", "_local_scalar_dense", "is_set_to",
        "_fused_sdp_choice", "record_stream", "_nested_view_from_buffer", "_conj", "_neg_view", "squeeze_",
        "unsqueeze_", "t_", "transpose_", "detach_", "_cudnn_rnn_flatten_weight", "is_same_size", "equal",
    )
)  # fmt: skip
"""Views, allocations, and what only the host looks at: no kernel (reading one value is a copy, which is the host's)."""


def cost(operation: Operation) -> Cost:
    """What the operation costs on any GPU."""
    base = operation.base
    if base in _FREE or _empty(operation):
        return FREE
    found = formulas.get(base)
    if found is not None:
        return Cost(found(operation), least_bytes(operation))
    kernel = Kernel("pointwise", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation))
    return Cost((kernel,), least_bytes(operation), known=False)


def read_bytes(operation: Operation) -> int:
    """Bytes of all that goes in, each tensor once."""
    tensors = [tensor for tensor in operation.inputs() if not tensor.host]
    total = sum(tensor.bytes for tensor in tensors)
    if operation.repeated and tensors:
        total -= tensors[0].bytes
    return total


def written_bytes(operation: Operation) -> int:
    """Bytes of all that comes out, new or in place."""
    return sum(tensor.bytes for tensor in (*operation.outputs, *operation.targets()))


def least_bytes(operation: Operation) -> int:
    """The fewest bytes that must move: an overwriting operator need not read its target, a gather not its table."""
    reading = _FEWEST_READ.get(operation.base)
    read = read_bytes(operation) if reading is None else reading(operation)
    written = 0 if operation.base in _PARTLY_WRITTEN else written_bytes(operation)
    return max(read, 0) + written


def _first_target_bytes(operation: Operation) -> int:
    return sum(target.bytes for target in operation.targets())


def _gathered(operation: Operation) -> int:
    return sum(output.bytes for output in operation.outputs)


def _nothing(operation: Operation) -> int:
    return 0


def _without_targets(operation: Operation) -> int:
    return read_bytes(operation) - _first_target_bytes(operation)


_FEWEST_READ: dict[str, Callable[[Operation], int]] = {
    **{f"aten::{name}": _nothing for name in ("fill_", "zero_", "random_", "normal_", "uniform_", "bernoulli_")},
    **{f"aten::{name}": _without_targets for name in ("copy_", "_foreach_zero_", "_foreach_copy_")},
    **{f"aten::{name}": _gathered for name in ("embedding", "index_select", "gather", "index", "roll")},
    # They write a part of their target, or read it in parts: how much hangs on values.
    **{
        f"aten::{name}": _nothing
        for name in (
            "index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_add_", "nll_loss_forward",
            "nll_loss_backward", "embedding_dense_backward", "index_copy_", "index_fill_", "masked_fill_",
        )
    },
}  # fmt: skip
_PARTLY_WRITTEN = frozenset(
    f"aten::{name}"
    for name in ("index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_add_", "index_copy_")
)


def tensors_of(operation: Operation) -> list[TensorType]:
    """All its tensors on the GPU, inputs first."""
    return [tensor for tensor in (*operation.inputs(), *operation.outputs) if not tensor.host]


def _empty(operation: Operation) -> bool:
    made = [*operation.outputs, *operation.targets()]
    return bool(made) and all(tensor.count == 0 for tensor in made)
