"""The fast paths of ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` in inference.

Sources: native_multi_head_attention_cuda in aten/src/ATen/native/transformers/cuda/attention.cu, native/transformers/
transformer.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.operators import Operator
from flatout.virtual.registry import stands_in

_aten: Any = torch.ops.aten
WHOLE_MASK, PADDING_MASK = 0, 1


@stands_in("_native_multi_head_attention")
def multi_head_attention(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    batch, length = query.shape[0], query.shape[1]
    size = embed_dim // num_head
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    if (query is key and key is value) or (query.shape == key.shape and _same(query, key) and _same(key, value)):
        parts = _aten.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = [_aten.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
    q, k, v = (part.view(batch, -1, num_head, size).transpose(1, 2) for part in parts)
    if mask is not None and mask_type == PADDING_MASK:
        mask = mask.view(batch, 1, 1, -1)
    if not need_weights:
        attend = None if mask is None else mask.logical_not() if mask.dtype is torch.bool else mask
        mixed = _aten.scaled_dot_product_attention(q, k, v, attend)
        merged = mixed.transpose(1, 2).reshape(batch, length, embed_dim)
        return _aten.linear(merged, proj_weight, proj_bias), None
    scores = _aten.matmul(q / size**0.5, k.transpose(-2, -1))
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf")) if mask.dtype is torch.bool else scores + mask
    attention = scores.softmax(-1)
    merged = _aten.matmul(attention, v).transpose(1, 2).reshape(batch, length, embed_dim)
    output = _aten.linear(merged, proj_weight, proj_bias)
    return output, attention.mean(1) if average_attn_weights else attention


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return (
        first.untyped_storage()._cdata == second.untyped_storage()._cdata
        and first.storage_offset() == second.storage_offset()
    )


@stands_in("_transformer_encoder_layer_fwd")
def encoder_layer(
    op: Operator,
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = _aten.layer_norm(x, [embed_dim], weight, bias, eps)
        return normed

    x = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    x = _aten._native_multi_head_attention(
        x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
    )[0]
    x = x.add_(src)
    if not norm_first:
        x = norm(x, norm_weight_1, norm_bias_1)
    before = x
    if norm_first:
        x = norm(x, norm_weight_2, norm_bias_2)
    x = _aten.linear(x, ffn_weight_1, ffn_bias_1)
    x = x.gelu_() if use_gelu and hasattr(x, "gelu_") else _aten.gelu(x) if use_gelu else x.relu_()
    x = _aten.linear(x, ffn_weight_2, ffn_bias_2).add_(before)
    return x if norm_first else norm(x, norm_weight_2, norm_bias_2)
