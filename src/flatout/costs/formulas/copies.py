"""Copies on the GPU. Those between host and GPU are transfers, which have a lane and a clock of their own."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.formulas.shared import streaming
from flatout.costs.table import formula, written_bytes
from flatout.recording.operation import Operation, TensorType


@formula("copy_", "_to_copy", "clone", "_copy_from", "contiguous", "_conj_physical", "lift_fresh_copy")
def copy(operation: Operation) -> tuple[Kernel, ...]:
    """Read once, written once, with a change of dtype or not; "strided" where the order of dimensions changes."""
    tensors = list(operation.inputs())
    if any(tensor.host for tensor in tensors):
        return ()
    return (streaming(operation, "copy", reads_target=False),)


@formula("cat", "stack", "repeat", "flip", "roll", "constant_pad_nd", "_chunk_cat", "block_diag", "rot90")
def gathered(operation: Operation) -> tuple[Kernel, ...]:
    written = written_bytes(operation)
    return (Kernel("copy", bytes_read=written, bytes_written=written),)


@formula(
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "im2col", "col2im",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "reflection_pad1d_backward",
    "reflection_pad2d_backward", "replication_pad1d_backward", "replication_pad2d_backward", "unfold_backward",
)  # fmt: skip
def moved(operation: Operation) -> tuple[Kernel, ...]:
    return (streaming(operation, "strided"),)


@formula(
    "select_backward", "slice_backward", "diagonal_backward", "as_strided_scatter", "slice_scatter", "select_scatter"
)
def scattered_into_zeros(operation: Operation) -> tuple[Kernel, ...]:
    """Zeros are written, then the gradient is copied into its place."""
    grad = next((t for t in operation.inputs() if isinstance(t, TensorType)), None)
    part = 0 if grad is None else grad.bytes
    return (
        Kernel("fill", bytes_written=written_bytes(operation)),
        Kernel("copy", bytes_read=part, bytes_written=part),
    )
