"""Flash attention, forward and backward, of padded and of packed sequences: outputs and temporaries.

Sources: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, and attention.cu and attention_backward.cu
above it. Tensors are of shape (batch, length, heads, head size) where not said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels.efficient_backward import FLOAT_BYTES
from flatout.virtual.kernels.layouts import copy_bytes, padded
from flatout.virtual.kernels.target import Temporaries, multiprocessors, torch_version
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

FLASH_ROWS = 128


def _columns(head_size: int) -> int:
    """Floats that a row of an accumulator has for this head size."""
    return padded(head_size, 32 if head_size <= 128 else 64)


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
    output = torch.empty_like(q)
    lse = empty((batch, heads, length), torch.float32, index)
    if dropout == 0 and batch and heads:
        shape = (batch, key_heads, heads // key_heads) if grouped_decode else (batch, heads, length)
        splits = flash_splits(*shape, key_length, size, multiprocessors(index))
        if splits > 1:
            rows = splits * shape[0] * shape[1] * shape[2]
            with Temporaries(index) as temporaries:
                temporaries.take(rows * FLOAT_BYTES)
                temporaries.take(rows * _columns(size) * FLOAT_BYTES)
    debug_size: Sequence[int] = (0,)
    if debug:
        debug_size = (batch, heads, padded(length, FLASH_ROWS), padded(key_length, FLASH_ROWS))
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
    output = torch.empty_like(query)
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
    grads = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    with Temporaries(native_index(query)) as temporaries:
        all_rows = rows + FLASH_ROWS * sequences
        temporaries.take(heads * all_rows * FLOAT_BYTES)
        temporaries.take(all_rows * heads * _columns(size) * FLOAT_BYTES)
    return grads


def _flash_backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of tensors of shape (batch, length, heads, head size)."""
    machines.current().operations += 1
    index = native_index(q)
    batch, length, heads, size = q.shape
    key_length, key_heads = k.shape[1], k.shape[2]
    rows, columns = padded(length, FLASH_ROWS), _columns(size)
    accumulators = 1
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        accumulators = -(-multiprocessors(index) // max(batch * heads, 1))
    with Temporaries(index) as temporaries:
        for tensor in (grad, out):
            temporaries.take(copy_bytes(tensor, torch.contiguous_format))
        grads = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        temporaries.take(batch * heads * rows * FLOAT_BYTES)
        temporaries.take(accumulators * batch * rows * heads * columns * FLOAT_BYTES)
        if key_heads != heads:
            expanded = batch * key_length * heads * size * q.element_size()
            temporaries.take(expanded)
            temporaries.take(expanded)
    return grads
