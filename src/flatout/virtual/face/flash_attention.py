"""A stand-in for the package ``flash_attn`` where it is not installed: the same shapes through PyTorch's own attention.

PyTorch's flash kernel is the same algorithm, so memory is close; the report notes the substitution.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines

_NOTE = "the package flash_attn is not installed: its attention is modelled by PyTorch's scaled_dot_product_attention"
_NAMES = ("flash_attn", "flash_attn.flash_attn_interface")


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    *others: Any,
    return_attn_probs: bool = False,
    **options: Any,
) -> torch.Tensor:
    """Attention over ``(batch, sequence, heads, head_size)``, float16 or bfloat16 only, as flash-attn has it."""
    if return_attn_probs or options.get("alibi_slopes") is not None:
        raise UnsupportedError(
            "flash_attn_func with return_attn_probs or alibi_slopes is not modelled on the virtual GPU"
        )
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    machines.current().assume_that(_NOTE)
    out = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        dropout_p=dropout_p,
        is_causal=causal,
        scale=softmax_scale,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return out.transpose(1, 2)


def flash_attn_qkvpacked_func(qkv: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The same over ``(batch, sequence, 3, heads, head_size)``."""
    q, k, v = qkv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def flash_attn_kvpacked_func(q: torch.Tensor, kv: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The same with keys and values as ``(batch, sequence, 2, heads, head_size)``."""
    k, v = kv.unbind(2)
    return flash_attn_func(q, k, v, *args, **kwargs)


def _refuse(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"flash_attn.{name} is not modelled on the virtual GPU: use flash_attn_func, or attn_implementation='sdpa'"
        )

    refuse.__name__ = name
    return refuse


_CONTENT = {
    "__version__": "2.8.3",
    "__flatout__": True,
    "flash_attn_func": flash_attn_func,
    "flash_attn_qkvpacked_func": flash_attn_qkvpacked_func,
    "flash_attn_kvpacked_func": flash_attn_kvpacked_func,
    **{
        name: _refuse(name)
        for name in (
            "flash_attn_varlen_func",
            "flash_attn_varlen_qkvpacked_func",
            "flash_attn_varlen_kvpacked_func",
            "flash_attn_with_kvcache",
        )
    },
}


class Finder:
    """Finds the stand-in for ``import flash_attn``."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name not in _NAMES:
            return None
        return ModuleSpec(name, self, is_package=name == "flash_attn")  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_CONTENT)
