"""Losses. Cross-entropy is log-softmax (see `normalization`), then one number picked from each row."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation


@formula("nll_loss_forward", "nll_loss2d_forward")
def picked(operation: Operation) -> tuple[Kernel, ...]:
    """One element of each row, a memory sector of 32 bytes each."""
    target = operation.tensor(1)
    return (Kernel("gather", bytes_read=target.bytes + 32 * target.count, bytes_written=written_bytes(operation)),)


@formula("nll_loss_backward", "nll_loss2d_backward")
def picked_backward(operation: Operation) -> tuple[Kernel, ...]:
    """Zeros for all, and one element of each row."""
    target = operation.tensor(2)
    return (
        Kernel("fill", bytes_written=written_bytes(operation)),
        Kernel("scatter", bytes_read=target.bytes, bytes_written=32 * target.count),
    )


@formula("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss", "multi_margin_loss")
def compared(operation: Operation) -> tuple[Kernel, ...]:
    """Element by element; unless the reduction is "none", a temporary of the input's size is written and summed up."""
    read, written = read_bytes(operation), written_bytes(operation)
    size = operation.tensor(0).bytes
    if written >= size:
        return (Kernel("pointwise", bytes_read=read, bytes_written=written),)
    return (
        Kernel("pointwise", bytes_read=read, bytes_written=size),
        Kernel("reduction", bytes_read=size, bytes_written=written),
    )
