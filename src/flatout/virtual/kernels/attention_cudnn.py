"""cuDNN's attention, forward and backward: outputs and an estimate of its temporaries.

Source: aten/src/ATen/native/cudnn/MHA.cpp. Tensors are of shape (batch, heads, length, head size).
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels.efficient_backward import FLOAT_BYTES
from flatout.virtual.kernels.target import scratch
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index


@stands_in("_scaled_dot_product_cudnn_attention")
def cudnn(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: float | None = None,
) -> Any:
    machines.current().operations += 1
    index = native_index(query)
    batch, heads, length, _ = query.shape
    seed, offset = empty((), torch.int64, index), empty((), torch.int64, index)
    shape = (batch, heads, length, value.shape[3])
    order = sorted(range(4), key=lambda d: (query.stride(d), query.shape[d] == 1))
    strides, step = [0] * 4, 1
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1)
    output = empty(shape, query.dtype, index, strides)
    lse = empty((batch, heads, length, 1), torch.float32, index) if compute_log_sumexp else None
    return output, lse, None, None, length, key.shape[2], seed, offset, None


@stands_in("_scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(
    op: Operator,
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    machines.current().operations += 1
    grads = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    batch, heads, length, size = query.shape
    # An estimate: cuDNN sums the query's gradient in float32, with one number more a row, as flash attention does.
    scratch(native_index(query), batch * heads * length * (size + 1) * FLOAT_BYTES)
    return grads
