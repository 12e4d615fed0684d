"""Memory-efficient attention (CUTLASS), forward and backward: outputs and temporaries.

Sources: aten/src/ATen/native/transformers/cuda/attention.cu and attention_backward.cu. Tensors are of shape (batch,
heads, length, head size).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels import efficient_backward
from flatout.virtual.kernels.attention_choice import HALF
from flatout.virtual.kernels.efficient_backward import FLOAT_BYTES
from flatout.virtual.kernels.layouts import copy_bytes, padded
from flatout.virtual.kernels.target import Temporaries, decided, scratch
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

LSE_MULTIPLE = 32
BIAS_MULTIPLE = 16
"""The rows of the mask's gradient are padded to a multiple of this many elements."""


@stands_in("_scaled_dot_product_efficient_attention")
def efficient(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    machines.current().operations += 1
    index = native_index(query)
    batch, heads, length, _ = query.shape
    value_size = value.shape[3]
    output = empty((batch, length, heads, value_size), query.dtype, index)
    lse = empty((batch, heads, padded(length, LSE_MULTIPLE) if compute_log_sumexp else 0), torch.float32, index)
    if query.dtype in HALF and value_size > 128:
        # The output does not fit in registers: it is summed in float32 outside.
        scratch(index, batch * length * heads * value_size * FLOAT_BYTES)
    # The random state lives on the host, except in a captured graph.
    return output.transpose(1, 2), lse, torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)


@stands_in("_scaled_dot_product_efficient_attention_backward")
def efficient_backward_kernel(
    op: Operator,
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    machines.current().operations += 1
    index = native_index(query)
    batch, heads, length, _ = query.shape
    with Temporaries(index) as temporaries:
        grad = grad_out.transpose(1, 2)
        temporaries.take(copy_bytes(grad, torch.contiguous_format))
        grads = [_swapped(tensor) for tensor in (query, key, value)]
        grad_bias = None
        if grad_input_mask[3] and attn_bias is not None:
            columns = attn_bias.shape[-1]
            rows = empty((*attn_bias.shape[:-1], padded(columns, BIAS_MULTIPLE)), attn_bias.dtype, index)
            grad_bias = rows.narrow(-1, 0, columns)
        kernel = decided(index, partial(efficient_backward.kernel_for, query, key, value, dropout_p > 0))
        delta_bytes = batch * heads * length * FLOAT_BYTES
        if not kernel.computes_delta:
            with Temporaries(index) as products:
                for tensor in (grad, out):
                    if tensor.dtype is not torch.float32:
                        products.take(tensor.numel() * FLOAT_BYTES)
                products.take(grad.numel() * FLOAT_BYTES)
                products.take(delta_bytes)
                temporaries.take(delta_bytes)
        else:
            temporaries.take(delta_bytes)
        temporaries.take(kernel.workspace_bytes(batch, heads, length, key.shape[2], query.shape[3], value.shape[3]))
    return (*grads, grad_bias)


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    """New memory in the order (batch, length, heads, head size), seen as (batch, heads, length, head size)."""
    batch, heads, length, size = tensor.shape
    return empty((batch, length, heads, size), tensor.dtype, native_index(tensor)).transpose(1, 2)
