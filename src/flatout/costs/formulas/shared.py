"""What formulas share: on what a dtype is computed, and whether a kernel walks its tensors in one order."""

from __future__ import annotations

from math import gcd

from flatout.costs.cost import ALIGNMENT_BYTES, Datapath, Kernel
from flatout.costs.table import read_bytes, tensors_of, written_bytes
from flatout.recording.operation import Operation, TensorType

_DATAPATHS: dict[str, Datapath] = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64_tensor",
    "int8": "int8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


def product_datapath(dtype: str, tf32: bool) -> Datapath:
    """On what a matrix product of that dtype runs; `tf32` says whether float32 may be rounded to TF32."""
    if dtype == "float32":
        return "tf32" if tf32 else "fp32"
    return _DATAPATHS.get(dtype, "fp32")


def alignment_bytes(distance_bytes: int) -> int:
    """The largest power of two, up to 16 bytes, that divides the distance of rows; 16 where there is one row."""
    return gcd(distance_bytes, ALIGNMENT_BYTES) if distance_bytes else ALIGNMENT_BYTES


def order(tensor: TensorType) -> tuple[int, ...]:
    """The dimensions with more than one element from the slowest to the fastest, expanded ones left out."""
    used = [d for d, n in enumerate(tensor.shape) if n > 1 and tensor.strides[d]]
    return tuple(sorted(used, key=lambda d: -tensor.strides[d]))


def one_order(operation: Operation) -> bool:
    """Whether all its large tensors are laid out in the same order, so that neighbours are read together."""
    full = tensors_of(operation)
    if not full:
        return True
    largest = max(tensor.count for tensor in full)
    orders = {order(tensor)[-1:] for tensor in full if tensor.count == largest and tensor.bytes > tensor.item_bytes}
    return len(orders) <= 1


def streaming(operation: Operation, kind: str = "pointwise", *, reads_target: bool = True) -> Kernel:
    """One kernel that reads each input once and writes each output once."""
    read = read_bytes(operation)
    if not reads_target:
        read -= sum(target.bytes for target in operation.targets())
    return Kernel(
        kind if one_order(operation) else "strided",
        bytes_read=max(read, 0),
        bytes_written=written_bytes(operation),
    )
