"""Tensors seen from outside PyTorch: numpy, DLPack, printing."""

from __future__ import annotations

from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import invented, values
from flatout.virtual import machine as machines
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import HOST_INDEX, native_index

_base: Any = torch._C.TensorBase
_plain_numpy = _base.numpy
_plain_dlpack: Any = torch.Tensor.__dlpack__
_plain_from_dlpack: Any = torch.utils.dlpack.from_dlpack
# Source: DLPack's DLDeviceType, kDLCUDA.
_DLPACK_CUDA = 2


def on_gpu(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is simulated GPU memory."""
    return 0 < native_index(tensor) <= HOST_INDEX


def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
    """``Tensor.numpy``: GPU memory has no numpy view. Source of the text: torch/csrc/utils/tensor_numpy.cpp."""
    if not on_gpu(self):
        return _plain_numpy(self, force=force)
    if force:
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()
    raise TypeError(
        f"can't convert {self.device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


class Capsule:
    """What ``Tensor.__dlpack__`` gives of GPU memory that is not there: good for PyTorch, of no use to anybody else."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def dlpack(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """``Tensor.__dlpack__``."""
    return Capsule(self.detach()) if on_gpu(self) else _plain_dlpack(self, *args, **kwargs)


def dlpack_device(self: torch.Tensor) -> tuple[int, int]:
    """``Tensor.__dlpack_device__``."""
    if on_gpu(self):
        return _DLPACK_CUDA, self.get_device()
    return _plain_dlpack_device(self)  # type: ignore[no-any-return]


_plain_dlpack_device: Any = torch.Tensor.__dlpack_device__


def to_dlpack(tensor: torch.Tensor) -> Any:
    """``torch.utils.dlpack.to_dlpack``."""
    return Capsule(tensor.detach()) if on_gpu(tensor) else _plain_to_dlpack(tensor)


_plain_to_dlpack: Any = torch._C._to_dlpack


def from_dlpack(ext_tensor: Any, **kwargs: Any) -> torch.Tensor:
    """``torch.from_dlpack``."""
    if isinstance(ext_tensor, Capsule):
        return ext_tensor.tensor
    if isinstance(ext_tensor, torch.Tensor) and on_gpu(ext_tensor):
        return ext_tensor.detach()
    return _plain_from_dlpack(ext_tensor, **kwargs)  # type: ignore[no-any-return]


def cuda_array_interface(self: torch.Tensor) -> Any:
    """``Tensor.__cuda_array_interface__``: the dictionary is right, but nobody can read that memory."""
    if on_gpu(self) and not self.requires_grad:
        machines.current().assume_that(
            "GPU memory was handed to another library (__cuda_array_interface__), which cannot read it here"
        )
    return _plain_array_interface(self)


_plain_array_interface: Any = torch.Tensor.__cuda_array_interface__.fget  # type: ignore[attr-defined]


def seen_on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of the same shape for printing: the known content, or one made-up value for all."""
    known = values.real(tensor)
    machines.current().wait("print a tensor", invented=known is None)
    if known is not None:
        return known
    return invented.tensor_like(tensor) if tensor.numel() < 1000 else _same_everywhere(tensor)


def _same_everywhere(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def _printing(plain: Any) -> Any:
    def tensor_str(self: torch.Tensor, indent: int) -> Any:
        if type(self) in (torch.Tensor, torch.nn.Parameter) and native_index(self) and self.layout is torch.strided:
            self = seen_on_host(self)
        return plain(self, indent)

    return tensor_str


def refuse_pointer_access(name: str) -> UnsupportedError:
    """The error for code that would follow a pointer into GPU memory."""
    return UnsupportedError(f"{name} needs the content of GPU memory, which the virtual GPU does not have")


def install(patches: Patches) -> None:
    """Replace them on ``torch.Tensor`` and in ``torch.utils.dlpack``."""
    tensor: Any = torch.Tensor
    patches.set_all(
        tensor,
        {
            "numpy": numpy,
            "__dlpack__": dlpack,
            "__dlpack_device__": dlpack_device,
            "__cuda_array_interface__": property(cuda_array_interface),
        },
    )
    patches.set(torch, "from_dlpack", from_dlpack)
    patches.set(torch, "to_dlpack", to_dlpack)
    patches.set(torch.utils.dlpack, "from_dlpack", from_dlpack)
    patches.set(torch.utils.dlpack, "to_dlpack", to_dlpack)
    printing: Any = torch._tensor_str
    patches.set(printing, "_tensor_str", _printing(printing._tensor_str))
