"""Pickling virtual tensors: what they look like, not what they contain.

A tensor is saved as shape, stride, dtype, device and a reference to its storage; tensors that share a storage share it
again after loading. So a model of any size is saved in the time and bytes of its structure.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual.files.ops import TensorOps
from flatout.virtual.files.patches import Patches
from flatout.virtual.files.tainting import taint

_ops: TensorOps | None = None
# Where a saved device shall come back; torch.load sets it to honour map_location.
_place: Callable[[str], str] | None = None


class _Storage:
    """One storage in a pickle. The pickler's memo makes two tensors on it refer to one."""

    def __init__(self, elements: int, dtype: torch.dtype, device: str, values: torch.Tensor | None) -> None:
        self._arguments = (elements, dtype, device, values)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_storage, self._arguments


# The memo of a pickler that is at work keeps its storages alive; nothing else does.
_storages: weakref.WeakValueDictionary[int, _Storage] = weakref.WeakValueDictionary()


def _rebuild_storage(elements: int, dtype: torch.dtype, device: str, values: torch.Tensor | None) -> torch.Tensor:
    if _ops is None:
        raise RuntimeError(
            "this file was saved by a dry run on a virtual GPU and holds no values; save it again in a real run"
        )
    target = torch.device(device if _place is None else _place(device))
    if values is not None:
        return values.clone() if target.type == "cpu" else _ops.to_device(values, target)
    taint()
    return _ops.empty(elements, dtype, target)


def _rebuild_tensor(
    base: torch.Tensor,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    requires_grad: bool,
    is_parameter: bool,
) -> torch.Tensor:
    with torch.no_grad():
        flat = base if base.dtype == dtype else base.view(dtype)
        tensor = flat.as_strided(size, stride, offset).detach()
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def reduce_virtual(tensor: torch.Tensor, ops: TensorOps) -> tuple[Any, ...]:
    """What pickle needs to know of a virtual tensor. Saving one taints the run."""
    taint()
    untyped = tensor.untyped_storage()
    identity = int(untyped._cdata)
    storage = _storages.get(identity)
    itemsize = tensor.element_size()
    if storage is None:
        elements = untyped.nbytes() // itemsize
        whole = tensor.is_contiguous() and tensor.numel() == elements and tensor.storage_offset() == 0
        values = ops.known_values(tensor.detach()) if whole else None
        flat = None if values is None else values.detach().reshape(-1).clone()
        storage = _Storage(elements, tensor.dtype, str(tensor.device), flat)
        _storages[identity] = storage
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    shape = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
    return _rebuild_tensor, (storage, tensor.dtype, *shape, tensor.requires_grad, is_parameter)


def set_place(place: Callable[[str], str] | None) -> Callable[[str], str] | None:
    """Say where saved devices come back from now on; returns what was said before."""
    global _place
    old = _place
    _place = place
    return old


def install_reduce(ops: TensorOps, patches: Patches) -> None:
    """Make pickle, torch.save and multiprocessing's queues carry virtual tensors."""
    global _ops
    _ops = ops

    def forget() -> None:
        global _ops
        _ops = None

    patches.on_restore(forget)
    for owner in (torch.Tensor, torch.nn.Parameter):
        patches.put(owner, "__reduce_ex__", _reducer(owner.__reduce_ex__, ops))
    torch.serialization.add_safe_globals([_rebuild_storage, _rebuild_tensor])
    _install_queues(ops, patches)


def _reducer(original: Any, ops: TensorOps) -> Callable[[Any, Any], Any]:
    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        if ops.is_virtual(self):
            return reduce_virtual(self, ops)
        return original(self, protocol)

    return __reduce_ex__


def _install_queues(ops: TensorOps, patches: Patches) -> None:
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # registers torch's own reducers

    reducers: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    for owner in (torch.Tensor, torch.nn.Parameter):
        original = reducers.get(owner)
        if original is not None:
            reducers[owner] = _queue_reducer(original, ops)
            patches.on_restore(lambda owner=owner, original=original: reducers.__setitem__(owner, original))  # type: ignore[misc]


def _queue_reducer(original: Any, ops: TensorOps) -> Callable[[Any], Any]:
    def reduce(tensor: Any) -> Any:
        return reduce_virtual(tensor, ops) if ops.is_virtual(tensor) else original(tensor)

    return reduce
