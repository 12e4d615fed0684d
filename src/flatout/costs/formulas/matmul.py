"""Matrix products by cuBLAS."""

from __future__ import annotations

from flatout.costs.cost import ALIGNMENT_BYTES, Kernel, Product
from flatout.costs.formulas.shared import alignment_bytes, product_datapath
from flatout.costs.table import formula
from flatout.recording.operation import Operation, TensorType


def product_kernel(
    operation: Operation, left: TensorType, right: TensorType, *, written_bytes: int, extra_read_bytes: int = 0
) -> Kernel:
    """The kernel of ``left @ right`` (of 2 or 3 dimensions), each operand read once."""
    batch = left.shape[0] if len(left.shape) == 3 else 1
    product = Product(batch, left.shape[-2], right.shape[-1], left.shape[-1])
    datapath = product_datapath(left.dtype, operation.tf32)
    sides = (left, right, *(output for output in operation.outputs if len(output.shape) >= 2))
    alignment = min(alignment_bytes(_leading(side) * side.item_bytes) for side in sides)
    return Kernel(
        "matmul",
        product.flops,
        left.bytes + right.bytes + extra_read_bytes,
        written_bytes,
        datapath,
        product,
        alignment_bytes=ALIGNMENT_BYTES if datapath == "fp32" else alignment,
    )


def _leading(side: TensorType) -> int:
    """The distance of its rows (or columns) in memory, which decides how wide loads can be."""
    strides = [s for n, s in zip(side.shape[-2:], side.strides[-2:]) if n > 1 and s != 1]
    return max(strides, default=0)


def _made(operation: Operation) -> int:
    return sum(t.bytes for t in (*operation.outputs, *operation.targets()))


@formula("mm", "bmm", "_int_mm", "_scaled_mm")
def plain(operation: Operation) -> tuple[Kernel, ...]:
    return (product_kernel(operation, operation.tensor(0), operation.tensor(1), written_bytes=_made(operation)),)


@formula("addmm", "addmm_", "baddbmm", "baddbmm_", "_addmm_activation")
def with_addend(operation: Operation) -> tuple[Kernel, ...]:
    """A bias of one dimension is added by the product's own kernel; any other addend is copied to the output first."""
    addend, left, right = operation.tensor(0), operation.tensor(1), operation.tensor(2)
    made = _made(operation)
    kernel = product_kernel(operation, left, right, written_bytes=made, extra_read_bytes=addend.bytes)
    if len(addend.shape) == 1 or operation.written or dict(operation.keywords).get("beta") == 0:
        return (kernel,)
    return (Kernel("pointwise", bytes_read=addend.bytes, bytes_written=made), kernel)


@formula("mv", "addmv", "addmv_", "dot", "vdot")
def vectors(operation: Operation) -> tuple[Kernel, ...]:
    """Each element of the matrix is used once: memory decides."""
    tensors = list(operation.inputs())
    largest = max(tensor.count for tensor in tensors)
    return (Kernel("reduction", 2 * largest, sum(t.bytes for t in tensors), _made(operation), "fp32"),)
