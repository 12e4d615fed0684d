"""Outputs and temporaries of CUDA's attention kernels, forward and backward.

Sources: aten/src/ATen/native/transformers/cuda/attention.cu and attention_backward.cu, flash_attn/flash_api.cpp beside
them, aten/src/ATen/native/cudnn/MHA.cpp. Sizes in elements: (batch, heads, length, head size).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels import efficient_backward
from flatout.virtual.kernels.attention_choice import HALF
from flatout.virtual.kernels.target import Temporaries, compute_capability, multiprocessors, scratch, torch_version
from flatout.virtual.operators import Operator
from flatout.virtual.registry import stands_in
from flatout.virtual.tensor import native_index

FLOAT_BYTES = 4
FLASH_ROWS = 128
LSE_MULTIPLE = 32


def _rounded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def flash_splits(batch: int, heads: int, length: int, key_length: int, head_size: int, processors: int) -> int:
    """Into how many parts flash attention splits the keys when batch, heads and queries cannot fill the GPU."""
    key_block = 256 if head_size <= 64 else 128 if head_size <= 128 else 64
    key_blocks = -(-key_length // key_block)
    blocks = batch * heads * -(-length // 64)
    slots = processors * 2
    if blocks >= 0.8 * slots:
        return 1
    most = min(128, slots, key_blocks)
    efficiency: list[float] = []
    for splits in range(1, most + 1):
        if splits > 1 and -(-key_blocks // splits) == -(-key_blocks // (splits - 1)):
            efficiency.append(0.0)
            continue
        waves = blocks * splits / slots
        efficiency.append(waves / math.ceil(waves))
    best = max(efficiency, default=0.0)
    return next((n for n, reached in enumerate(efficiency, 1) if reached >= 0.85 * best and reached), 1)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """``empty_like`` of a tensor (dense strides keep their order)."""
    return torch.empty_like(tensor)


@stands_in("_scaled_dot_product_flash_attention")
def flash(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: float | None = None,
) -> Any:
    q, k = query.transpose(1, 2), key.transpose(1, 2)
    output, lse, state, unused, debug = _flash_forward(q, k, dropout_p, return_debug_mask)
    return output.transpose(1, 2), lse, None, None, query.shape[2], key.shape[2], state, unused, debug


def _flash_forward(q: torch.Tensor, k: torch.Tensor, dropout: float, debug: bool) -> Any:
    """Flash attention of tensors of shape (batch, length, heads, head size)."""
    machines.current().operations += 1
    index = native_index(q)
    batch, length, heads, size = q.shape
    key_length, key_heads = k.shape[1], k.shape[2]
    grouped_decode = length == 1 and heads > key_heads and dropout == 0 and batch > 0
    output = _like(q)
    lse = empty((batch, heads, length), torch.float32, index)
    if dropout == 0 and batch and heads:
        shape = (batch, key_heads, heads // key_heads) if grouped_decode else (batch, heads, length)
        splits = flash_splits(*shape, key_length, size, multiprocessors(index))
        if splits > 1:
            rows = splits * shape[0] * shape[1] * shape[2]
            with Temporaries(index) as temporaries:
                temporaries.take(rows * FLOAT_BYTES)
                temporaries.take(rows * _rounded(size, 32 if size <= 128 else 64) * FLOAT_BYTES)
    debug_size: Sequence[int] = (0,)
    if debug:
        debug_size = (batch, heads, _rounded(length, FLASH_ROWS), _rounded(key_length, FLASH_ROWS))
    if torch_version() < (2, 7):
        # Before 2.7 the random state is two numbers on the host.
        state, unused = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
    else:
        state = empty((2,), torch.uint64, index)
        unused = empty((), torch.uint64, index)
        if dropout > 0:
            state = empty((2,), torch.uint64, index)
    return output, lse, state, unused, empty(debug_size, q.dtype, index)


@stands_in("_flash_attention_forward")
def flash_forward(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    **options: Any,
) -> Any:
    if cum_seq_q is None:
        return _flash_forward(query, key, dropout_p, return_debug_mask)
    machines.current().operations += 1
    index = native_index(query)
    output = _like(query)
    # The lengths are ragged: rows of all sequences together. Source: mha_varlen_fwd.
    lse = empty((query.shape[1], query.shape[0]), torch.float32, index)
    state = empty((2,), torch.uint64, index)
    return output, lse, state, empty((), torch.uint64, index), empty((0,), query.dtype, index)


@stands_in("_scaled_dot_product_flash_attention_backward")
def flash_backward(
    op: Operator,
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    grads = _flash_backward(*(tensor.transpose(1, 2) for tensor in (grad_out, query, key, value, out)))
    return tuple(grad.transpose(1, 2) for grad in grads)


@stands_in("_flash_attention_backward")
def flash_backward_plain(
    op: Operator,
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *rest: Any,
    **options: Any,
) -> Any:
    if cum_seq_q is None:
        return _flash_backward(grad_out, query, key, value, out)
    machines.current().operations += 1
    sequences = cum_seq_q.numel() - 1
    rows, heads, size = query.shape
    grads = _like(query), _like(key), _like(value)
    with Temporaries(native_index(query)) as temporaries:
        padded = rows + FLASH_ROWS * sequences
        temporaries.take(heads * padded * FLOAT_BYTES)
        temporaries.take(padded * heads * _rounded(size, 32 if size <= 128 else 64) * FLOAT_BYTES)
    return grads


def _flash_backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of tensors of shape (batch, length, heads, head size)."""
    machines.current().operations += 1
    index = native_index(q)
    batch, length, heads, size = q.shape
    key_length, key_heads = k.shape[1], k.shape[2]
    rows, columns = _rounded(length, FLASH_ROWS), _rounded(size, 32 if size <= 128 else 64)
    accumulators = 1
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        accumulators = -(-multiprocessors(index) // max(batch * heads, 1))
    with Temporaries(index) as temporaries:
        for tensor in (grad, out):
            if not tensor.is_contiguous():
                temporaries.take(tensor.numel() * tensor.element_size())
        grads = _like(q), _like(k), _like(v)
        temporaries.take(batch * heads * rows * FLOAT_BYTES)
        temporaries.take(accumulators * batch * rows * heads * columns * FLOAT_BYTES)
        if key_heads != heads:
            expanded = batch * key_length * heads * size * q.element_size()
            temporaries.take(expanded)
            temporaries.take(expanded)
    return grads


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
    lse = empty((batch, heads, _rounded(length, LSE_MULTIPLE) if compute_log_sumexp else 0), torch.float32, index)
    if (
        query.dtype in HALF and value_size > 128
    ):  # the output does not fit in registers: it is summed in float32 outside
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
        if not grad.is_contiguous():
            temporaries.take(grad.numel() * grad.element_size())
        grads = [_swapped(tensor) for tensor in (query, key, value)]
        grad_bias = None
        if grad_input_mask[3] and attn_bias is not None:
            columns = attn_bias.shape[-1]
            padded = empty((*attn_bias.shape[:-1], _rounded(columns, 16)), attn_bias.dtype, index)
            grad_bias = padded.narrow(-1, 0, columns)
        kernel = efficient_backward.kernel_for(query, key, value, dropout_p > 0, compute_capability(index))
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
    grads = _like(query), _like(key), _like(value)
    batch, heads, length, size = query.shape
    # An estimate: cuDNN sums the query's gradient in float32, with one number more a row, as flash attention does.
    scratch(native_index(query), batch * heads * length * (size + 1) * FLOAT_BYTES)
    return grads
