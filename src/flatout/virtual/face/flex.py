"""``flex_attention`` is refused by name: only a compiled kernel runs its score functions as the GPU would."""

from __future__ import annotations

from typing import Any

from flatout.errors import UnsupportedError
from flatout.steps.imports import when_imported
from flatout.virtual.tensor import is_virtual


def install() -> None:
    """Refuse virtual tensors where every call of ``flex_attention`` comes through (others go on as before).

    In older versions (2.6) its module loads PyTorch's compiler: it is left to the script to import it.
    """
    when_imported("torch._higher_order_ops.flex_attention", _watch_operator)
    when_imported("torch.nn.attention.flex_attention", _watch_function)


def _refuse(query: Any) -> None:
    if is_virtual(query):
        raise UnsupportedError(
            "the virtual GPU does not run flex_attention: use scaled_dot_product_attention with a mask for the dry run"
        )


def _watch_operator(module: Any) -> None:
    kind: Any = getattr(module, "FlexAttentionHOP", None)
    if kind is None:
        return
    plain = kind.__call__

    def call(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse(query)
        return plain(self, query, *args, **kwargs)

    kind.__call__ = call


def _watch_function(module: Any) -> None:
    plain = module.flex_attention

    def flex_attention(query: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse(query)
        return plain(query, *args, **kwargs)

    module.flex_attention = flex_attention
