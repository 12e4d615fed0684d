"""Operators that make a nested tensor out of ordinary ones (see `flatout.virtual.nested`)."""

from __future__ import annotations

from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines
from flatout.virtual import values
from flatout.virtual.nested import registration, tensors
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import HOST_INDEX, native_index

_CPU: Any = torch._C.DispatchKey.CPU


@stands_in("_nested_tensor_from_mask_left_aligned")
def mask_is_left_aligned(op: Operator, tensor: torch.Tensor, mask: torch.Tensor) -> bool:
    """Where the mask is not known: False. `nn.TransformerEncoder` then leaves its fast path aside."""
    if native_index(tensor) > HOST_INDEX:
        return False
    if values.real(mask) is None:
        machines.current().wait("TransformerEncoder looks at the padding mask", invented=True)
        machines.current().assume_that("a padded batch is not packed by nn.TransformerEncoder's fast path")
        return False
    return bool(op.overload._op_dk(_CPU, tensor, mask))


@stands_in("_nested_tensor_from_mask")
def from_mask(op: Operator, tensor: torch.Tensor, mask: torch.Tensor, mask_check: bool = True) -> torch.Tensor:
    """C++ counts the lengths on the GPU and reads them; packing is `from_padded`."""
    if values.real(mask) is None:
        raise UnsupportedError(
            f"{op.name} is not supported on the virtual GPU where the mask is computed from invented values: the sizes "
            "hang on it; give torch.nn.TransformerEncoder enable_nested_tensor=False"
        )
    packed: torch.Tensor = op.overload._op_dk(_CPU, tensor, mask, mask_check)
    return packed


@stands_in("_nested_from_padded")
def from_padded(
    op: Operator, padded: torch.Tensor, sizes: torch.Tensor, fuse_transform_0213: bool = False
) -> torch.Tensor:
    registration.register()
    return tensors.from_padded(padded, sizes, fuse_transform_0213)


@stands_in("_nested_tensor_from_tensor_list")
def from_list(op: Operator, *args: Any, **kwargs: Any) -> torch.Tensor:
    raise UnsupportedError(
        "torch.nested.as_nested_tensor is not supported on the virtual GPU: give it layout=torch.jagged, or pad the "
        "tensors to one length"
    )


@stands_in("_nested_view_from_buffer")
def view_from_buffer(op: Operator, buffer: torch.Tensor, *layout: torch.Tensor) -> torch.Tensor:
    registration.register()
    made: torch.Tensor = op.overload._op_dk(_CPU, buffer, *layout)
    return made
