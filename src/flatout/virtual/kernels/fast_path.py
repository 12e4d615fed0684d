"""The fast paths of ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` in inference.

Sources: native_multi_head_attention_cuda in aten/src/ATen/native/transformers/cuda/attention.cu, native/transformers/
transformer.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in

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


class EncoderLayer(NamedTuple):
    """What ``_transformer_encoder_layer_fwd`` is given beside its input and mask, in that order."""

    embed_dim: int
    num_heads: int
    qkv_weight: torch.Tensor
    qkv_bias: torch.Tensor
    proj_weight: torch.Tensor
    proj_bias: torch.Tensor
    use_gelu: bool
    norm_first: bool
    eps: float
    norm_weight_1: torch.Tensor
    norm_bias_1: torch.Tensor
    norm_weight_2: torch.Tensor
    norm_bias_2: torch.Tensor
    ffn_weight_1: torch.Tensor
    ffn_bias_1: torch.Tensor
    ffn_weight_2: torch.Tensor
    ffn_bias_2: torch.Tensor

    def run(self, src: torch.Tensor, attend: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The layer around an attention. `src` is of shape (..., embed_dim)."""
        x = attend(self._norm_1(src) if self.norm_first else src).add_(src)
        if not self.norm_first:
            x = self._norm_1(x)
        before = x
        if self.norm_first:
            x = self._norm_2(x)
        x = _aten.linear(x, self.ffn_weight_1, self.ffn_bias_1)
        x = x.gelu_() if self.use_gelu and hasattr(x, "gelu_") else _aten.gelu(x) if self.use_gelu else x.relu_()
        x = _aten.linear(x, self.ffn_weight_2, self.ffn_bias_2).add_(before)
        return x if self.norm_first else self._norm_2(x)

    def _norm_1(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = _aten.layer_norm(x, [self.embed_dim], self.norm_weight_1, self.norm_bias_1, self.eps)
        return normed

    def _norm_2(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = _aten.layer_norm(x, [self.embed_dim], self.norm_weight_2, self.norm_bias_2, self.eps)
        return normed


@stands_in("_transformer_encoder_layer_fwd")
def encoder_layer(op: Operator, src: torch.Tensor, *rest: Any) -> torch.Tensor:
    count = len(EncoderLayer._fields)
    layer = EncoderLayer(*rest[:count])
    mask, mask_type = (*rest[count:], None, None)[:2]

    def attend(x: torch.Tensor) -> torch.Tensor:
        attended: torch.Tensor = _aten._native_multi_head_attention(
            x, x, x, layer.embed_dim, layer.num_heads, layer.qkv_weight, layer.qkv_bias, layer.proj_weight,
            layer.proj_bias, mask, False, True, mask_type,
        )[0]  # fmt: skip
        return attended

    return layer.run(src, attend)
