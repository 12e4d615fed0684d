"""``scaled_dot_product_attention`` as CUDA takes it apart: prepare the mask and the head size, call one kernel.

Source: aten/src/ATen/native/transformers/attention.cpp.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.kernels.attention_choice import CUDNN, EFFICIENT, FLASH, NAMES, call_of, choose
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes, stands_in

_aten: Any = torch.ops.aten
HEAD_MULTIPLE = 8
MASK_MULTIPLE = 8


@composes("scaled_dot_product_attention")
def scaled_dot_product_attention(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    _check(query, key, value, attn_mask, is_causal)
    call = call_of(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    kernel = choose(call)
    machines.current().count("attention_kernels", NAMES[kernel])
    if kernel == CUDNN and attn_mask is not None and attn_mask.dtype is torch.bool:
        mask = _additive(attn_mask, query.dtype, torch.finfo(query.dtype).min / 2)
    else:
        mask = _additive(attn_mask, query.dtype, -math.inf)
    if kernel == FLASH:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if kernel == EFFICIENT:
        if mask is not None:
            mask = _aligned(mask).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        return _aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, call.requires_grad, dropout_p, is_causal, scale=scale
        )[0]
    if kernel == CUDNN:
        return _aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, call.requires_grad, dropout_p, is_causal, False, scale=scale
        )[0]
    return _aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


@stands_in("_fused_sdp_choice")
def fused_sdp_choice(
    op: Operator,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    return choose(call_of(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa))


def _check(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
) -> None:
    # The texts are PyTorch's own (validate_sdpa_input).
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got "
            f"query.dtype: {_name(query)} key.dtype: {_name(key)} and value.dtype: {_name(value)} instead."
        )
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {_name(mask)} and  query.dtype: {_name(query)} instead."
        )
    if mask is not None and causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")


_NAMES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int", torch.int32: "int", torch.bool: "bool",
}  # fmt: skip


def _name(tensor: torch.Tensor) -> str:
    return _NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))


def _additive(mask: torch.Tensor | None, dtype: torch.dtype, excluded: float) -> torch.Tensor | None:
    """A Boolean mask as numbers to add: 0 where it attends."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    low = _aten.scalar_tensor(excluded, dtype=dtype, device=mask.device)
    return torch.where(mask, 0.0, low)


def _aligned(mask: torch.Tensor) -> torch.Tensor:
    """The mask, copied into rows of a multiple of `MASK_MULTIPLE` elements if its rows do not start on one."""
    if mask.stride(-1) == 1 and all(stride % MASK_MULTIPLE == 0 for stride in mask.stride()[:-1]):
        return mask
    length = mask.shape[-1]
    padded: torch.Tensor = _aten.constant_pad_nd(mask, [0, MASK_MULTIPLE - length % MASK_MULTIPLE])
    return padded.narrow(-1, 0, length)


def _flash(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, causal: bool, scale: float | None
) -> Any:
    size = query.shape[3]
    missing = -size % HEAD_MULTIPLE
    scale = 1 / math.sqrt(size) if scale is None else scale
    if missing:
        query, key, value = (_aten.constant_pad_nd(tensor, [0, missing]) for tensor in (query, key, value))
    output = _aten._scaled_dot_product_flash_attention(query, key, value, dropout, causal, False, scale=scale)[0]
    return output.narrow(-1, 0, size) if missing else output
