"""Recurrent nets by cuDNN: the products of inputs at once, those of the hidden state step by step."""

from __future__ import annotations

from flatout.costs.cost import Kernel, Product
from flatout.costs.formulas.shared import product_datapath
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation, TensorType


def _kernels(operation: Operation, times: int) -> tuple[Kernel, ...]:
    x = operation.tensor(0)
    weights = operation.argument(1)
    matrices = (
        [w for w in weights if isinstance(w, TensorType) and len(w.shape) == 2] if isinstance(weights, tuple) else []
    )
    if len(x.shape) != 3 or not matrices:
        return (Kernel("pointwise", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)
    # Whether batch or time comes first does not matter to the product, and only little to the number of steps.
    length, batch = x.shape[0], x.shape[1]
    datapath = product_datapath(x.dtype, operation.tf32)
    kernels = []
    for matrix in matrices:
        product = Product(1, batch, matrix.shape[0], matrix.shape[1])
        moved = length * (batch * sum(matrix.shape) * matrix.item_bytes + matrix.bytes)
        kernels.append(
            Kernel("matmul", times * length * product.flops, times * moved, 0, datapath, launches=times * length)
        )
    return tuple(kernels)


@formula("_cudnn_rnn")
def forward(operation: Operation) -> tuple[Kernel, ...]:
    return _kernels(operation, 1)


@formula("_cudnn_rnn_backward")
def backward(operation: Operation) -> tuple[Kernel, ...]:
    """The gradients of inputs and of weights: twice the products."""
    return _kernels(operation, 2)
