"""Views and changes of shape in place: C++ does them itself, on the same storage and with the same keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual.dispatch import resize
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import span_bytes

_META_KEY: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)


@stands_in(
    "_reshape_alias", "as_strided", "as_strided_", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset",
    "set_.source_Tensor", "squeeze_", "squeeze_.dim", "squeeze_.dims", "t_", "transpose_", "unfold", "unsqueeze_",
    "view", "view_as_complex", "view_as_real",
)  # fmt: skip
def view(op: Operator, *args: Any, **kwargs: Any) -> Any:
    return op.overload.redispatch(_META_KEY, *args, **kwargs)


@stands_in("resize_")
def resize_(
    op: Operator, tensor: torch.Tensor, size: Sequence[int], memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    from flatout.virtual.kernels.factories import stride_for

    resize(tensor, size, stride_for(size, memory_format))
    return tensor


def storage_bytes(tensor: torch.Tensor) -> int:
    """Bytes of storage that a tensor reaches."""
    return span_bytes(tensor.shape, tensor.stride(), tensor.element_size(), int(tensor.storage_offset()))
