"""Sums and the like: all that goes in is read once, little is written."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation


@formula(
    "sum", "mean", "prod", "amax", "amin", "max", "min", "aminmax", "argmax", "argmin", "any", "all", "norm",
    "linalg_vector_norm", "var", "std", "var_mean", "std_mean", "logsumexp", "nansum", "count_nonzero", "median",
    "cross", "linalg_cross", "cdist", "_cdist_forward", "dist", "trace",
)  # fmt: skip
def reduction(operation: Operation) -> tuple[Kernel, ...]:
    return (Kernel("reduction", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)
