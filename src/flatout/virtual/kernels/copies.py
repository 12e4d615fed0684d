"""Copies between the host and the GPU, within a GPU, and single values read by the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import cuda_errors, hints, invented, values
from flatout.virtual import machine as machines
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import HOST_INDEX, allocation_of, native_index


def _scratch(index: int, nbytes: int) -> None:
    if 0 < index <= HOST_INDEX:
        machines.current().gpus[index - 1].memory.scratch(nbytes)


def covers_storage(tensor: torch.Tensor) -> bool:
    """Whether writing the whole tensor overwrites its whole storage."""
    return tensor.numel() * tensor.element_size() == allocation_of(tensor).nbytes


def _fits(size: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a tensor of that size can be broadcast to the target's."""
    padded = (1,) * (len(target) - len(size)) + tuple(size)
    return len(padded) == len(target) and all(n in (1, m) for n, m in zip(padded, target, strict=True))


@stands_in("copy_")
def copy_(op: Operator, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """``target.copy_(source)``. Where the temporaries come from: aten/src/ATen/native/cuda/Copy.cu."""
    to, of = native_index(target), native_index(source)
    if target.size() != source.size() and not _fits(source.size(), target.size()):
        cuda_errors.raise_if_refused(op, (target, source), {})
    if to and of:
        machines.current().operations += 1
        known = values.real(source)
        _write(target, known)
        if known is None and covers_storage(target):
            allocation_of(target).bounds = hints.converted(source, target.dtype)
        return target
    if to:
        machines.current().operations += 1
        if to <= HOST_INDEX:
            if not target.is_contiguous():
                _scratch(to, target.numel() * target.element_size())
            if not (non_blocking and source.is_pinned()):
                machines.current().wait("copy to the GPU")
            _note_input(target)
        small = target.numel() * target.element_size() <= values.limit_bytes(target.dtype)
        _write(target, source.detach() if small else None)
        return target
    if of <= HOST_INDEX:
        if not source.is_contiguous() or source.dtype != target.dtype:
            _scratch(of, target.numel() * target.element_size())
        known = values.real(source)
        if not non_blocking:
            machines.current().wait("copy to the host", invented=known is None)
    known = values.real(source)
    target.detach().copy_(invented.tensor_like(source) if known is None else known)
    return target


def _note_input(target: torch.Tensor) -> None:
    """Memory that comes from the host is an input, unless something is known of it (a module marks its own later)."""
    record = allocation_of(target).record
    if record is not None and record.category in ("activations", "other"):
        record.category = "inputs"


def _write(target: torch.Tensor, known: torch.Tensor | None) -> None:
    if known is None:
        values.forget(target)
        return
    seen = values.real(target)
    if seen is not None:
        seen.copy_(known)
    elif covers_storage(target) and allocation_of(target).nbytes <= values.limit_bytes(target.dtype):
        values.know(target, known)


@stands_in("_local_scalar_dense")
def local_scalar_dense(op: Operator, tensor: torch.Tensor) -> Any:
    known = values.real(tensor)
    machines.current().wait("read one value", invented=known is None)
    return invented.scalar_like(tensor) if known is None else known.item()
