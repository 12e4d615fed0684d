"""Copies between GPUs of one process: ``torch.cuda.comm``, ``torch.nn.DataParallel``."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.face.devices import device_argument
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import HOST_INDEX, native_index


def _on(tensor: torch.Tensor, number: int) -> torch.Tensor:
    device = device_argument(int(number))
    return tensor if tensor.device == device else tensor.to(device)


def _broadcast(tensor: torch.Tensor, devices: Any) -> list[torch.Tensor]:
    return [_on(tensor, number) for number in devices]


def _broadcast_out(tensor: torch.Tensor, out: Any) -> Any:
    for target in out:
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor has device '{target.device}'"
            )
        target.copy_(tensor)
    return out


def _broadcast_coalesced(tensors: Any, devices: Any, buffer_size: int) -> list[list[torch.Tensor]]:
    first = device_argument(int(devices[0]))
    if not all(tensor.device == first for tensor in tensors):
        raise RuntimeError(f"all tensors must be on devices[0]: {devices[0]}")
    return [[_on(tensor, number) for tensor in tensors] for number in devices]


def _scatter(tensor: torch.Tensor, devices: Any, chunk_sizes: Any = None, dim: int = 0, streams: Any = None) -> Any:
    chunks = tensor.split(list(chunk_sizes), dim) if chunk_sizes is not None else tensor.chunk(len(devices), dim)
    return [_on(chunk.contiguous(), number) for chunk, number in zip(chunks, devices)]


def _scatter_out(tensor: torch.Tensor, out: Any, dim: int = 0, streams: Any = None) -> Any:
    for chunk, target in zip(tensor.split([target.size(dim) for target in out], dim), out):
        target.copy_(chunk)
    return out


def _gather(tensors: Any, dim: int, destination: int | None = None) -> torch.Tensor:
    if not all(0 < native_index(tensor) <= HOST_INDEX for tensor in tensors):
        raise RuntimeError("Gather expects all inputs to be CUDA tensors")
    gathered = torch.cat(list(tensors), dim)
    if destination is None or destination >= 0:
        return gathered
    return gathered.cpu()


def _gather_out(tensors: Any, out: torch.Tensor, dim: int) -> torch.Tensor:
    return out.copy_(torch.cat(list(tensors), dim))


FUNCTIONS = {
    "_broadcast": _broadcast,
    "_broadcast_out": _broadcast_out,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_scatter": _scatter,
    "_scatter_out": _scatter_out,
    "_gather": _gather,
    "_gather_out": _gather_out,
}


def install(patches: Patches) -> None:
    """Put these functions under ``torch.nn.parallel.comm``."""
    patches.set_all(torch._C, FUNCTIONS)
