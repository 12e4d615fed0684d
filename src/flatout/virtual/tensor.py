"""What a virtual tensor is.

A virtual tensor is a *plain* ``torch.Tensor`` (no subclass), so ``type(p) is nn.Parameter`` holds as it does on a real
machine. Three facts make it:

* C++ sees it on device ``meta``, so autograd asks for no CUDA device guard (there is none to ask). The *index* of that
  meta device marks it as ours: ``meta:1`` is GPU 0, ``meta:2`` is GPU 1, ``meta:100`` is host memory that is not
  really there. C++ carries the index along through views and ``options()``; a script's own ``device="meta"`` has none.
* its dispatch keys are CUDA's (``CUDA``, ``AutogradCUDA``, ``AutocastCUDA``; for host memory those of ``HPU``, a
  backend that nobody has beside it), so every operation on it reaches the kernels that `dispatch` registers there.
* its storage's Python object carries an `Allocation`, which lives exactly as long as C++ keeps the storage alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

HOST_INDEX = 99
HOST = torch.device("cpu")
META = torch.device("meta")

_tensor_base: Any = torch._C.TensorBase
native_device: Callable[[torch.Tensor], torch.device] = _tensor_base.device.__get__
"""The device as C++ sees it: ``meta`` with the index that says whose memory it is."""

_make_subclass: Callable[..., torch.Tensor] = torch.Tensor._make_subclass
_make_wrapper: Any = torch.Tensor._make_wrapper_subclass
_cuda_keys = torch.device("cuda", 0)
_host_keys = torch.device("hpu", 0)
_python_key: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.Python) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.PythonTLSSnapshot
)
_exclude: Any = torch._C._ExcludeDispatchKeyGuard


class Owner(Protocol):
    """Who is told when the memory of an `Allocation` is given back."""

    def release(self, allocation: Allocation) -> None: ...

    def resize(self, allocation: Allocation, nbytes: int) -> None: ...


class Allocation:
    """The memory behind one storage: where it is, whose it is, and what is known of its content.

    Attributes:
        index: native device index (GPU number + 1, or `HOST_INDEX` + 1 for host memory that is not there).
        nbytes: size of the storage in bytes, before the allocator's rounding.
        block: the caching allocator's block; None for empty storages and host memory.
        values: a real CPU storage with the true content, or None where the content is not known.
        bounds: what is known about unknown content (see `hints`).
        record: the accounting's entry for this block.
    """

    __slots__ = ("__weakref__", "block", "bounds", "index", "nbytes", "owner", "record", "values")

    def __init__(self, owner: Owner | None, index: int, nbytes: int) -> None:
        self.owner = owner
        self.index = index
        self.nbytes = nbytes
        self.block: Any = None
        self.values: Any = None
        self.bounds: Any = None
        self.record: Any = None

    def __del__(self) -> None:
        if self.owner is not None:
            self.owner.release(self)


class _Template(torch.Tensor):
    """Only a way to make a storage on ``meta`` with an index; no object of this class outlives `new_tensor`."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func} reached a template")


_devices = {index: torch.device("meta", index) for index in range(1, HOST_INDEX + 2)}


def new_tensor(allocation: Allocation, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A virtual tensor over fresh memory. `size` and `stride` count elements."""
    index = allocation.index
    template = _make_wrapper(
        _Template, size, stride, dtype=dtype, device=_devices[index], storage_size=allocation.nbytes
    )
    keys = _host_keys if index > HOST_INDEX else _cuda_keys
    with _exclude(_python_key):
        tensor = _make_subclass(torch.Tensor, template, False, device_for_backend_keys=keys)
    storage: Any = tensor.untyped_storage()
    storage._flatout = allocation
    return tensor


def new_meta(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, requires_grad: bool = False
) -> torch.Tensor:
    """A script's own meta tensor, or a stand-in to ask PyTorch for an operation's output shapes."""
    template = _make_wrapper(
        _Template, size, stride, dtype=dtype, device=META, storage_size=span_bytes(size, stride, dtype.itemsize)
    )
    with _exclude(_python_key):
        return _make_subclass(torch.Tensor, template, requires_grad, device_for_backend_keys=META)


def as_meta(tensor: torch.Tensor) -> torch.Tensor:
    """An alias of a virtual tensor that PyTorch's meta kernels accept (same storage, same native device)."""
    return _make_subclass(torch.Tensor, tensor, False, device_for_backend_keys=META)


def as_virtual(alias: torch.Tensor, index: int) -> torch.Tensor:
    """A virtual tensor from an alias made by `as_meta` (same storage)."""
    keys = _host_keys if index > HOST_INDEX else _cuda_keys
    return _make_subclass(torch.Tensor, alias, False, device_for_backend_keys=keys)


class _Place(threading.local):
    """What plain ``meta`` stands for while C++ makes a tensor on a device of which it knows only the type."""

    index = 0


place = _Place()


@contextmanager
def placed_on(index: int) -> Iterator[None]:
    """Tensors made on plain ``meta`` meanwhile belong to that native index; 0 is ``meta`` itself."""
    before, place.index = place.index, index
    try:
        yield
    finally:
        place.index = before


def is_virtual(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is simulated (on a GPU, or host memory that is not there)."""
    device = native_device(tensor)
    return device.type == "meta" and device.index is not None


def native_index(tensor: torch.Tensor) -> int:
    """0 for real tensors and a script's own meta tensors; else the native index of the virtual memory."""
    device = native_device(tensor)
    return (device.index or 0) if device.type == "meta" else 0


def shown_device(device: torch.device) -> torch.device:
    """The device that a script sees for a native one."""
    if device.type != "meta" or device.index is None:
        return device
    return HOST if device.index > HOST_INDEX else torch.device("cuda", device.index - 1)


def allocation_of(tensor: torch.Tensor) -> Allocation:
    """The memory behind a virtual tensor."""
    storage: Any = tensor.untyped_storage()
    found: Allocation = storage._flatout
    return found


def span_bytes(size: Sequence[int], stride: Sequence[int], itemsize: int, offset: int = 0) -> int:
    """Bytes from a storage's start to the last element of a tensor: ``(offset + sum((n-1)*s) + 1) * itemsize``."""
    last = offset
    for n, s in zip(size, stride):
        if n == 0:
            return 0
        last += (n - 1) * s
    return (last + 1) * itemsize


def contiguous_stride(size: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor, as PyTorch numbers them (a dimension of size 0 counts as 1)."""
    strides: list[int] = []
    step = 1
    for n in reversed(size):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
