"""``UntypedStorage`` and ``TypedStorage`` of virtual tensors."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual import values
from flatout.virtual.face import pinning
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import HOST_INDEX, Allocation, new_tensor, shown_device

_Storage: Any = torch.UntypedStorage
_base: Any = torch._C.StorageBase
_plain_resize = _Storage.resize_
_plain_device = _base.device.__get__
_plain_data_ptr = _Storage.data_ptr
_plain_deepcopy = _Storage.__deepcopy__
_plain_clone = _Storage.clone


def install(patches: Patches) -> None:
    """Replace the methods on ``torch.UntypedStorage`` (real storages go on as before)."""
    patches.set_all(
        _Storage,
        {
            "resize_": _resize,
            "device": property(lambda self: shown_device(_plain_device(self))),
            "is_cuda": property(lambda self: shown_device(_plain_device(self)).type == "cuda"),
            "data_ptr": _data_ptr,
            "clone": _clone,
            "__deepcopy__": _deepcopy,
            "is_pinned": pinning.storage_is_pinned,
            "pin_memory": pinning.storage_pin_memory,
        },
    )


def allocation(storage: Any) -> Allocation | None:
    """The virtual memory behind a storage, or None for a real one."""
    return getattr(storage, "_flatout", None)


def _resize(self: Any, size: int) -> Any:
    mine = allocation(self)
    result = _plain_resize(self, size)
    if mine is not None:
        if mine.owner is not None:
            mine.owner.resize(mine, int(size))
        values.resize(mine, int(size))
    return result


def _data_ptr(self: Any) -> int:
    mine = allocation(self)
    if mine is None:
        return int(_plain_data_ptr(self))
    return mine.block.address if mine.block is not None else 0


def _clone(self: Any) -> Any:
    mine = allocation(self)
    if mine is None:
        return _plain_clone(self)
    machine = machines.current()
    if mine.index > HOST_INDEX:
        copy = Allocation(None, mine.index, mine.nbytes)
    else:
        copy = machine.gpus[mine.index - 1].memory.allocate(mine.nbytes)
    if mine.values is not None:
        copy.values = _plain_clone(mine.values)
    return new_tensor(copy, (mine.nbytes,), (1,), torch.uint8).untyped_storage()


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if allocation(self) is None:
        return _plain_deepcopy(self, memo)
    known = memo.setdefault("torch", {})  # type: ignore[call-overload]
    if self._cdata not in known:
        known[self._cdata] = _clone(self)
    return known[self._cdata]
