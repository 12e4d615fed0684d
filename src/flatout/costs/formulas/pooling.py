"""Pooling and resampling: images are read and written once, indices of maxima are int64."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation

_FORWARD = (
    "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "adaptive_max_pool2d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d",
    "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "grid_sampler_2d", "grid_sampler_3d",
)  # fmt: skip


@formula(*_FORWARD)
def pooling(operation: Operation) -> tuple[Kernel, ...]:
    return (Kernel("pooling", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)


@formula(*(f"{name}_backward" for name in _FORWARD))
def pooling_backward(operation: Operation) -> tuple[Kernel, ...]:
    """The gradient of the input is made from that of the output and the indices; the input itself is not read."""
    grad = operation.tensor(0)
    indices = sum(t.bytes for t in operation.inputs() if t.dtype in ("int64", "int32"))
    return (Kernel("pooling_backward", bytes_read=grad.bytes + indices, bytes_written=written_bytes(operation)),)
