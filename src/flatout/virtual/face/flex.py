"""``flex_attention`` is refused by name: only a compiled kernel runs its score functions as the GPU would."""

from __future__ import annotations

from typing import Any

from flatout.errors import UnsupportedError
from flatout.virtual.tensor import is_virtual


def install() -> None:
    """Refuse virtual tensors where every call of ``flex_attention`` comes through (others go on as before)."""
    try:
        from torch._higher_order_ops.flex_attention import FlexAttentionHOP
        from torch._higher_order_ops.flex_attention import flex_attention as operator
        from torch.nn.attention import flex_attention as module
    except ImportError:
        return
    kind: Any = FlexAttentionHOP
    plain = kind.__call__

    def call(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if is_virtual(query):
            raise UnsupportedError(
                "the virtual GPU does not run flex_attention: "
                "use scaled_dot_product_attention with a mask for the dry run"
            )
        return plain(self, query, *args, **kwargs)

    kind.__call__ = call
    public: Any = module
    plain_public = public.flex_attention

    def flex_attention(query: Any, *args: Any, **kwargs: Any) -> Any:
        if is_virtual(query):
            return call(operator, query)
        return plain_public(query, *args, **kwargs)

    public.flex_attention = flex_attention
