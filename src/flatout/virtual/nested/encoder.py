"""A layer of ``nn.TransformerEncoder`` on a nested tensor, as evaluation's fast path runs it.

All tokens of a batch lie behind each other, so whatever looks at one token at a time is the same as for a padded
tensor. Attention is not: it takes the lengths.

Sources: aten/src/ATen/native/transformers/transformer.cpp; transformers/cuda/attention.cu
(``native_multi_head_attention_cuda``, ``transform_bias_rescale_qkv_cuda``);
nested/cuda/NestedTensorTransformerFunctions.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels.attention_choice import EFFICIENT, FLASH, MATH, NAMES, call_of, choose
from flatout.virtual.kernels.fast_path import EncoderLayer
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.nested.tensors import buffer_of, from_padded, over, sizes_of
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten
HEAD_MULTIPLE = 8
PADDED_MULTIPLE = 8
"""The length of the padded copy on which attention by plain products works is a multiple of this."""


def encoder_layer(src: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The kernel of ``_transformer_encoder_layer_fwd`` for a nested `src`; a mask cannot come with one."""
    layer = EncoderLayer(*rest[: len(EncoderLayer._fields)])
    sizes = sizes_of(src)
    tokens = buffer_of(src).view(-1, layer.embed_dim)
    result = layer.run(tokens, lambda x: _attend(x, sizes, layer))
    return over(result.view(-1), sizes)


def _attend(x: torch.Tensor, sizes: torch.Tensor, layer: EncoderLayer) -> torch.Tensor:
    """`x` of shape (tokens, embed_dim)."""
    heads, size = layer.num_heads, layer.embed_dim // layer.num_heads
    kernel = _kernel_for(x, heads, size)
    machines.current().count("attention_kernels", NAMES[kernel])
    if kernel not in (FLASH, EFFICIENT):
        return _by_products(x, sizes, layer)
    query, key, value = _aten.linear(x, layer.qkv_weight, layer.qkv_bias).view(-1, 3, heads, size).unbind(1)
    mixed = _fused(query, key, value, sizes, kernel)
    projected: torch.Tensor = _aten.linear(mixed.reshape(-1, layer.embed_dim), layer.proj_weight, layer.proj_bias)
    return projected


def _kernel_for(x: torch.Tensor, heads: int, size: int) -> int:
    if size % HEAD_MULTIPLE:
        return MATH
    as_a_batch = x.view(1, -1, heads, size).transpose(1, 2)
    return choose(call_of(as_a_batch, as_a_batch, as_a_batch, None, 0.0, False, False), nested=True)


def _fused(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sizes: torch.Tensor, kernel: int
) -> torch.Tensor:
    """Attention of each sequence to itself. Tensors of shape (tokens, heads, head size)."""
    lengths = sizes[:, 0]
    borders = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32).to(query.device)
    longest = int(lengths.max())
    if kernel == FLASH:
        mixed: torch.Tensor = _aten._flash_attention_forward(
            query, key, value, borders, borders, longest, longest, 0.0, False, False
        )[0]
        return mixed
    machines.current().operations += 1
    return empty(query.shape, query.dtype, native_index(query))


def _by_products(x: torch.Tensor, sizes: torch.Tensor, layer: EncoderLayer) -> torch.Tensor:
    """Padded to one length, a multiple of `PADDED_MULTIPLE`: two products of matrices around a softmax."""
    index, heads, size = native_index(x), layer.num_heads, layer.embed_dim // layer.num_heads
    batch, longest = len(sizes), int(sizes[:, 0].max())
    length = -(-longest // PADDED_MULTIPLE) * PADDED_MULTIPLE
    projected = _aten.mm(x, layer.qkv_weight.t())
    padded = empty((3, batch * heads, length, size), x.dtype, index)
    machines.current().operations += 1
    del projected
    query, key, value = padded.unbind(0)
    scores = _aten.bmm(query, key.transpose(1, 2))
    with Temporaries(index) as temporaries:
        temporaries.take(batch * length)  # which places are padding, a byte each
        scores = _aten._softmax(scores, -1, False)
    _aten.bmm.out(scores, value, out=query)  # in the memory of the queries
    mixed = from_padded(query.view(batch, heads, length, size), sizes, True)
    tokens: torch.Tensor = _aten.addmm(
        layer.proj_bias, buffer_of(mixed).view(-1, layer.embed_dim), layer.proj_weight.t()
    )
    return tokens
