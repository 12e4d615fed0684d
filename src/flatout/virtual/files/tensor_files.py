"""Safetensors files with virtual tensors in them, and safetensors files read to the virtual GPU.

The file format (https://github.com/huggingface/safetensors, "Format") is eight bytes of header length, a JSON header
and the tensors' bytes. A virtual tensor's bytes are a hole: the file has its true size and takes no room on the disk.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual.files.load import checked_device
from flatout.virtual.files.ops import TensorOps
from flatout.virtual.files.patches import Patches
from flatout.virtual.files.tainting import taint

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


def write_sparse(path: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None, ops: TensorOps) -> None:
    """Write a valid safetensors file in which invented values are holes and known ones are not."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata is not None else {}
    position = 0
    pieces: list[tuple[int, torch.Tensor]] = []
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        length = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, position + length],
        }
        values = ops.known_values(tensor) if ops.is_virtual(tensor) else tensor
        if values is not None and length:
            pieces.append((position, values))
        position += length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        file.truncate(start + position)
        for offset, values in pieces:
            file.seek(start + offset)
            file.write(values.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _refuse_shared(tensors: dict[str, torch.Tensor]) -> None:
    seen: dict[int, str] = {}
    for name, tensor in tensors.items():
        other = seen.setdefault(tensor.untyped_storage()._cdata, name) if tensor.numel() else name
        if other != name:
            raise RuntimeError(
                "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
                f"loading them again: [{{{other!r}, {name!r}}}]. A potential way to correctly save your model is to "
                "use `save_model`."
            )


def _make_save(original: Any, ops: TensorOps) -> Callable[..., Any]:
    @functools.wraps(original)
    def save_file(tensors: dict[str, torch.Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
        if any(ops.is_virtual(tensor) for tensor in tensors.values()):
            taint()
            _refuse_shared(tensors)
            write_sparse(filename, tensors, metadata, ops)
        else:
            original(tensors, filename, metadata)

    return save_file


class _OpenOnDevice:
    """`safe_open` for a virtual device: reads on the CPU, hands out virtual tensors."""

    def __init__(self, opened: Any, ops: TensorOps, device: torch.device) -> None:
        self._opened = opened
        self._ops = ops
        self._device = device

    def __enter__(self) -> _OpenOnDevice:
        self._opened.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._opened.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        """One tensor, on the device."""
        return self._ops.to_device(self._opened.get_tensor(name), self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All tensors, on the device."""
        return {name: self.get_tensor(name) for name in self._opened.keys()}  # noqa: SIM118

    def get_slice(self, name: str) -> Any:
        """A view of one tensor; what is cut from it lands on the device."""
        return _SliceOnDevice(self._opened.get_slice(name), self._ops, self._device)


class _SliceOnDevice:
    def __init__(self, cut: Any, ops: TensorOps, device: torch.device) -> None:
        self._cut = cut
        self._ops = ops
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cut, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._ops.to_device(self._cut[index], self._device)


def _virtual_device(device: Any) -> torch.device | None:
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    return checked_device(name) if name.split(":")[0] == "cuda" else None


def _make_open(original: Any, ops: TensorOps) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def safe_open(filename: Any, framework: str = "pt", device: Any = "cpu", **options: Any) -> Any:
        target = _virtual_device(device) if framework in ("pt", "torch", "pytorch") else None
        if target is None:
            return original(filename, framework=framework, device=device, **options)
        return _OpenOnDevice(original(filename, framework=framework, device="cpu", **options), ops, target)

    return safe_open


def install_reading(module: Any, ops: TensorOps, patches: Patches, package: str) -> None:
    """Replace `safe_open` of `module`, which is `safetensors`."""
    pair = (module.safe_open, _make_open(module.safe_open, ops))
    patches.put(module, "safe_open", pair[1])
    patches.rebind([pair], package)


def install_writing(module: Any, ops: TensorOps, patches: Patches, package: str) -> None:
    """Replace `save_file` of `module`, which is `safetensors.torch`."""
    pair = (module.save_file, _make_save(module.save_file, ops))
    patches.put(module, "save_file", pair[1])
    patches.rebind([pair], package)
