"""`torch.save` and `torch.load` on a machine whose GPU is virtual.

Checkpoints are read to the CPU; where `map_location`, or the file, says "cuda", the tensors then move to the virtual
device, storage by storage, so that tied tensors stay tied. (PyTorch without CUDA refuses to deserialize to it.)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual.files import reduce
from flatout.virtual.files.ops import TensorOps
from flatout.virtual.files.patches import Patches
from flatout.virtual.files.shadow import ShadowStore
from flatout.virtual.files.tainting import tainted


class _Loading:
    """One call of torch.load: which storages go to which device, and what they have become."""

    def __init__(self, map_location: Any, ops: TensorOps) -> None:
        self.map_location = map_location
        self.ops = ops
        self.targets: dict[int, tuple[Any, torch.device]] = {}
        self.bases: dict[int, torch.Tensor] = {}
        self.filled_later: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.legacy = False  # the format before PyTorch 1.6 reads the contents after it has made the tensors

    def locate(self, storage: Any, location: str) -> Any:
        """Stands in for `map_location`: the storage stays on the CPU, its target is noted."""
        wanted = self.map_location
        if callable(wanted):
            result = wanted(storage, location)
            if result is not None:
                return result
            wanted = location
        elif wanted is None:
            wanted = location
        elif isinstance(wanted, dict):
            wanted = wanted.get(location, location)
        name = os.fsdecode(wanted) if isinstance(wanted, bytes) else str(wanted)
        if name.split(":")[0] != "cuda":
            restore: Any = torch.serialization.default_restore_location
            return restore(storage, name)
        self.send(storage, checked_device(name))
        return storage

    def place(self, device: str) -> str:
        """Where a tensor comes back that a dry run saved from this device."""
        make_storage: Any = torch.UntypedStorage
        probe = make_storage(0)
        result = self.locate(probe, device)
        target = self.targets.get(probe._cdata)
        if target is not None:
            return str(target[1])
        return "meta" if result.device.type == "meta" else "cpu"

    def send(self, storage: Any, device: torch.device) -> None:
        """Note that this storage goes to a virtual device."""
        untyped = storage._untyped_storage if isinstance(storage, torch.storage.TypedStorage) else storage
        self.targets[untyped._cdata] = (untyped, device)

    def moved(self, storage: Any, tensor: torch.Tensor) -> torch.Tensor:
        """The virtual tensor in place of this CPU tensor on `storage`, or the tensor itself."""
        untyped = storage._untyped_storage
        target = self.targets.get(untyped._cdata)
        if target is None:
            return tensor
        with torch.no_grad():
            base = self.bases.get(untyped._cdata)
            if base is None:
                itemsize = tensor.element_size()
                flat = torch.empty(0, dtype=tensor.dtype).set_(untyped, 0, (untyped.nbytes() // itemsize,), (1,))
                base = self.ops.to_device(flat, target[1])
                self.bases[untyped._cdata] = base
                if self.legacy:
                    self.filled_later.append((base, flat))
            view = base if base.dtype == tensor.dtype else base.view(tensor.dtype)
            return view.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).detach()


_current: _Loading | None = None


def checked_device(name: str) -> torch.device:
    """The device of a storage's location. Raises PyTorch's own error where the virtual machine has no such GPU."""
    device = torch.device(name)
    index = torch.cuda.current_device() if device.index is None else device.index
    count = torch.cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. "
            "Please use torch.load with map_location to map your storages to an existing device."
        )
    return torch.device("cuda", index)


def _rebuilder(original: Callable[..., Any], requires_grad_index: int | None) -> Callable[..., Any]:
    @functools.wraps(original)
    def rebuild(storage: Any, *arguments: Any, **options: Any) -> Any:
        tensor = original(storage, *arguments, **options)
        if _current is None:
            return tensor
        moved = _current.moved(storage, tensor)
        if moved is not tensor and requires_grad_index is not None and tensor.requires_grad:
            moved.requires_grad_()
        return moved

    return rebuild


def _sender(original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def cuda(self: Any, device: Any = None, *arguments: Any, **options: Any) -> Any:
        if _current is None:
            return original(self, device, *arguments, **options)
        name = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else str(device)
        _current.send(self, checked_device(name))
        return self

    return cuda


def _is_path(file: Any) -> bool:
    return isinstance(file, (str, os.PathLike))


def make_load(original: Any, ops: TensorOps, store: ShadowStore | None) -> Callable[..., Any]:
    """The replacement of `torch.load`."""

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *arguments: Any, **options: Any) -> Any:
        global _current
        if store is not None and store.active and _is_path(f):
            f = store.place_to_read(f) or f
        loading = _Loading(map_location, ops)
        outer, _current = _current, loading
        old_place = reduce.set_place(loading.place)
        locate: Any = functools.partial(_Loading.locate, loading)
        locate.asked_for = map_location
        try:
            loaded = original(f, locate, *arguments, **options)
        finally:
            _current = outer
            reduce.set_place(old_place)
        if loading.legacy:
            with torch.no_grad():
                for base, flat in loading.filled_later:
                    base.copy_(flat)
        return loaded

    return load


def _make_legacy(original: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def _legacy_load(*arguments: Any, **options: Any) -> Any:
        if _current is not None:
            _current.legacy = True
        return original(*arguments, **options)

    return _legacy_load


def make_save(original: Any, store: ShadowStore) -> Callable[..., Any]:
    """The replacement of `torch.save`: the archive is written where the store says."""

    @functools.wraps(original)
    def save(obj: Any, f: Any, *arguments: Any, **options: Any) -> Any:
        if not _is_path(f):
            return original(obj, f, *arguments, **options)
        was_tainted = tainted()
        result = original(obj, store.place_to_write(f), *arguments, **options)
        if tainted() and not was_tainted:
            store.adopt(f)
        return result

    return save


def install_load(ops: TensorOps, store: ShadowStore | None, patches: Patches) -> None:
    """Replace torch.save and torch.load, and what they call to make tensors."""
    patches.put(torch._utils, "_rebuild_tensor", _rebuilder(torch._utils._rebuild_tensor, None))
    patches.put(torch._utils, "_rebuild_tensor_v3", _rebuilder(torch._utils._rebuild_tensor_v3, 4))
    allowed: Any = getattr(torch._weights_only_unpickler, "_get_allowed_globals", None)
    if hasattr(allowed, "cache_clear"):  # the table of functions that weights_only=True may call is made once
        allowed.cache_clear()
        patches.on_restore(allowed.cache_clear)
    for storage_type in (torch.UntypedStorage, torch.storage.TypedStorage):
        patches.put(storage_type, "cuda", _sender(storage_type.cuda))
    patches.put(torch.serialization, "_legacy_load", _make_legacy(torch.serialization._legacy_load))
    for owner in (torch, torch.serialization):
        patches.put(owner, "load", make_load(owner.load, ops, store))
        if store is not None:
            patches.put(owner, "save", make_save(owner.save, store))
