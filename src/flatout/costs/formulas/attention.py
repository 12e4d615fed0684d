"""Fused attention: flash, memory-efficient and cuDNN kernels. Attention written out is products, softmax and dropout.

Forward is two products, backward five (the scores are computed again). A causal mask halves them: blocks above the
diagonal are skipped. Only queries, keys, values and outputs move; the scores never leave the chip.
"""

from __future__ import annotations

from flatout.costs.cost import Kernel, Product
from flatout.costs.formulas.shared import product_datapath
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation, TensorType


def _kernel(
    operation: Operation, query: TensorType, key: TensorType, value: TensorType, causal: bool, *, heads_first: bool
) -> tuple[int, Kernel]:
    """FLOPs of one pair of products, and the forward kernel."""
    at = (1, 2) if heads_first else (2, 1)
    batch, heads, length = query.shape[0], query.shape[at[0]], query.shape[at[1]]
    key_length = key.shape[at[1]]
    size, value_size = query.shape[3], value.shape[3]
    flops = 2 * batch * heads * length * key_length * (size + value_size)
    if causal:
        flops //= 2
    # Each block of queries walks along all keys: as products of 128 rows.
    product = Product(batch * heads, length, size + value_size, key_length // 2 if causal else key_length)
    return flops, Kernel(
        "attention",
        flops,
        read_bytes(operation),
        written_bytes(operation),
        product_datapath(query.dtype, operation.tf32),
        product,
    )


_CAUSAL_AT = {
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "aten::_flash_attention_forward": 8,
    "aten::_scaled_dot_product_flash_attention_backward": 11,
    "aten::_scaled_dot_product_efficient_attention_backward": 11,
    "aten::_scaled_dot_product_cudnn_attention_backward": 14,
    "aten::_flash_attention_backward": 11,
}


def _causal(operation: Operation) -> bool:
    return operation.argument(_CAUSAL_AT[operation.base], False) is True


@formula(
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_flash_attention_forward",
)
def forward(operation: Operation) -> tuple[Kernel, ...]:
    query, key, value = operation.tensor(0), operation.tensor(1), operation.tensor(2)
    if len(query.shape) != 4:
        return _ragged(operation, query, 2)
    heads_first = operation.base != "aten::_flash_attention_forward"
    _, kernel = _kernel(operation, query, key, value, _causal(operation), heads_first=heads_first)
    return (kernel,)


@formula(
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_flash_attention_backward",
)
def backward(operation: Operation) -> tuple[Kernel, ...]:
    """Queries and keys meet twice, and three gradients are products; before it, a pass over output and gradient."""
    grad, query, key, value = (operation.tensor(position) for position in range(4))
    if len(query.shape) != 4:
        return _ragged(operation, query, 5)
    heads_first = operation.base != "aten::_flash_attention_backward"
    flops, kernel = _kernel(operation, query, key, value, _causal(operation), heads_first=heads_first)
    size, value_size = query.shape[3], value.shape[3]
    total = flops * (3 * size + 2 * value_size) // (size + value_size)
    assert kernel.product is not None
    product = Product(kernel.product.batch, kernel.product.rows, 3 * size + 2 * value_size, kernel.product.depth)
    main = Kernel("attention_backward", total, kernel.bytes_read, kernel.bytes_written, kernel.datapath, product)
    return (Kernel("reduction", bytes_read=2 * grad.bytes, bytes_written=grad.bytes // max(size, 1)), main)


def _ragged(operation: Operation, query: TensorType, products: int) -> tuple[Kernel, ...]:
    """Sequences of several lengths in one buffer: counted as if each had the mean length."""
    rows, heads, size = query.shape[-3:]
    offsets = next((t for t in operation.inputs() if t.dtype == "int32" and len(t.shape) == 1), None)
    sequences = max(offsets.count - 1, 1) if offsets is not None else 1
    flops = 2 * products * rows * max(rows // sequences, 1) * heads * size
    kind = "attention" if products == 2 else "attention_backward"
    datapath = product_datapath(query.dtype, operation.tf32)
    return (Kernel(kind, flops, read_bytes(operation), written_bytes(operation), datapath),)
