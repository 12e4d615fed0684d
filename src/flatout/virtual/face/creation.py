"""Functions that make tensors on a device that the script names.

Most are C++ and reach our kernels by themselves. Three things do not: a bare number as the device, page-locked memory,
and functions that take data (``torch.tensor``), which ask C++ for a CUDA device guard that is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual.face import forks, pinning
from flatout.virtual.face.devices import device_argument, plain_int
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import native_index

_SHAPED = (
    "empty", "empty_permuted", "empty_strided", "empty_quantized", "ones", "arange", "bartlett_window",
    "blackman_window", "eye",
    "full", "hamming_window", "hann_window", "kaiser_window", "linspace", "logspace", "rand", "randn", "randint",
    "randperm", "range", "scalar_tensor", "tril_indices", "triu_indices", "zeros", "empty_like", "zeros_like",
    "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "normal",
)  # fmt: skip
_FROM_DATA = (
    "tensor", "as_tensor", "asarray", "sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr_tensor",
    "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor",
)  # fmt: skip
_METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")
_Tensor = torch.Tensor
_wrapped: dict[Any, Any] = {}


def _is_cuda(device: Any) -> bool:
    if plain_int(device):
        return True
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, torch.device) and device.type == "cuda"


def _shaped(plain: Callable[..., Any]) -> Any:
    """Only what C++ cannot do itself is changed: this runs for every tensor that the script makes."""

    def create(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            device = kwargs["device"]
            if _is_cuda(device):
                kwargs["device"] = device_argument(device)
                if kwargs.get("pin_memory"):
                    raise RuntimeError("Only dense CPU tensors can be pinned")
                return plain(*args, **kwargs)
        if "pin_memory" in kwargs and kwargs.pop("pin_memory"):
            return pinning.mark(plain(*args, **kwargs))
        return plain(*args, **kwargs)

    return _like(create, plain)


def _from_data(plain: Callable[..., Any]) -> Any:
    def create(*args: Any, **kwargs: Any) -> Any:
        if "pin_memory" in kwargs and kwargs.pop("pin_memory"):
            return pinning.mark(create(*args, **kwargs))
        device = kwargs.get("device")
        data = args[0] if args else kwargs.get("data")
        if isinstance(data, _Tensor) and (native_index(data) or _is_cuda(device)) and plain not in _SPARSE:
            return _from_tensor(plain, data, args[1:], kwargs)
        if device is None or not _is_cuda(device):
            return plain(*args, **kwargs)
        device = device_argument(device)
        requires_grad = kwargs.pop("requires_grad", False)
        kwargs["device"] = "cpu"
        moved = plain(*args, **kwargs).to(device)
        return moved.requires_grad_() if requires_grad else moved

    return _like(create, plain)


def _from_tensor(plain: Any, data: torch.Tensor, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
    device = kwargs.get("device")
    device = data.device if device is None else device_argument(device)
    dtype = kwargs.get("dtype") or (args[0] if args else None) or data.dtype
    copies = plain is _plain["tensor"] or (plain is _plain["asarray"] and kwargs.get("copy"))
    if not copies:
        return data.to(device, dtype)
    made = data.detach().to(device, dtype, copy=True)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _new_tensor(self: torch.Tensor, data: Any, **kwargs: Any) -> torch.Tensor:
    """``Tensor.new_tensor``: as ``torch.tensor``, with this tensor's dtype and device where none is named."""
    kwargs["dtype"] = kwargs.get("dtype") or self.dtype
    kwargs["device"] = self.device if kwargs.get("device") is None else kwargs["device"]
    return torch.tensor(data, **kwargs)


def _nested_tensor(plain: Callable[..., Any]) -> Any:
    """``torch.nested.nested_tensor``: C++ makes one on a GPU that is there; a jagged one is made in Python."""

    def create(tensor_list: Any, *args: Any, **kwargs: Any) -> Any:
        device, jagged = kwargs.get("device"), kwargs.get("layout") is torch.jagged
        listed = any(isinstance(one, _Tensor) and native_index(one) for one in tensor_list)
        if not jagged and (_is_cuda(device) or (device is None and listed)):
            raise UnsupportedError(
                "torch.nested.nested_tensor is not supported on the virtual GPU: "
                "give it layout=torch.jagged, or pad the tensors to one length"
            )
        return plain(tensor_list, *args, **kwargs)

    return _like(create, plain)


def _method(plain: Callable[..., Any]) -> Any:
    def create(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and _is_cuda(device):
            kwargs["device"] = device_argument(device)
        return plain(self, *args, **kwargs)

    return _like(create, plain)


def _like(wrapper: Any, plain: Any) -> Any:
    wrapper.__name__ = getattr(plain, "__name__", "create")
    wrapper.__doc__ = plain.__doc__
    wrapper.__wrapped__ = plain
    _wrapped[plain] = wrapper
    return wrapper


_plain: dict[str, Any] = {name: getattr(torch, name) for name in (*_SHAPED, *_FROM_DATA) if hasattr(torch, name)}
_SPARSE = frozenset(_plain[name] for name in _FROM_DATA if name.startswith("sparse"))


def _default_device(constructors: Callable[[], Any]) -> Any:
    def torch_function(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return _wrapped.get(func, func)(*args, **kwargs)

    return torch_function


def known_to_jit(plain: Any, wrapper: Any) -> None:
    """Let ``torch.jit.script`` know a builtin function by its wrapper too."""
    from torch.jit import _builtins

    table: Any = _builtins._get_builtin_table()
    if id(plain) in table:
        table[id(wrapper)] = table[id(plain)]


def install(patches: Patches) -> None:
    """Wrap them. A forked child that may not use CUDA gets the plain ones back: its work must not be slowed down."""
    from torch.utils import _device

    constructors: Any = _device._device_constructors
    constructors()  # remembers the plain functions, which modes are asked about
    own = Patches()
    for name, plain in _plain.items():
        own.set(torch, name, _from_data(plain) if name in _FROM_DATA else _shaped(plain))
    for name in _METHODS:
        own.set(_Tensor, name, _method(getattr(_Tensor, name)))
    own.set(_Tensor, "new_tensor", _new_tensor)
    own.set(torch.nested, "nested_tensor", _nested_tensor(torch.nested.nested_tensor))
    own.set(_device.DeviceContext, "__torch_function__", _default_device(constructors))
    for plain, wrapper in _wrapped.items():
        known_to_jit(plain, wrapper)
    patches.on_undo(own.undo)
    forks.restore_in_child(own.undo)
