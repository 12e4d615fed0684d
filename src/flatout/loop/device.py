"""The device to train on, and moving batches to it."""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
from collections import UserDict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from flatout.errors import UsageError

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # written by the kernel module: there is a driver and a GPU for it


@dataclass(frozen=True)
class Choice:
    """The chosen device, the reason in words, and what to warn of: a GPU that is there and not used."""

    device: torch.device
    why: str
    warning: str | None = None


def choose_device(asked: str | torch.device = "auto") -> Choice:
    """The device to train on: CUDA's `LOCAL_RANK`, else its first GPU, else MPS, else the CPU."""
    if str(asked) == "auto":
        # Not torch.accelerator: a CUDA build names CUDA there whether or not there is a GPU.
        if torch.cuda.is_available():
            device = _on_cuda(None, "auto")
            return Choice(device, torch.cuda.get_device_name(device))
        if torch.backends.mps.is_available():
            return Choice(torch.device("mps"), "Apple's GPU")
        return Choice(torch.device("cpu"), "PyTorch sees no GPU", unused_gpu())
    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError):
        raise UsageError(
            f"Loop(device={asked!r}): no device of that kind; give auto, cpu, cuda, cuda:1 or mps"
        ) from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise UsageError(f"Loop(device={asked!r}): Loop does not train on that; give auto, cpu, cuda, cuda:1 or mps")
    if device.type == "cuda":
        return Choice(_on_cuda(device.index, str(asked)), "asked for")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError(f"Loop(device={str(asked)!r}): PyTorch finds no Apple GPU here; give auto or cpu")
    warning = None
    if device.type == "cpu" and torch.cuda.is_available():
        warning = (
            f"training on the CPU as asked, though {torch.cuda.get_device_name(0)} is there; device='auto' uses it"
        )
    return Choice(device, "asked for", warning)


def _on_cuda(index: int | None, asked: str) -> torch.device:
    """The GPU of that index, or of this process (`LOCAL_RANK`). Raises `UsageError` if it is absent."""
    if not torch.cuda.is_available():
        raise UsageError(
            f"Loop(device={asked!r}): PyTorch sees no CUDA GPU"
            + (f" ({why})" if (why := unused_gpu()) else "")
            + "; give device='auto' to train on what is there"
        )
    count = torch.cuda.device_count()
    if index is None:
        rank = os.environ.get("LOCAL_RANK", "0")
        if not rank.isdigit():
            raise UsageError(
                f"LOCAL_RANK={rank!r}: not a number; torchrun sets it, 0 for the first process of a machine"
            )
        index = int(rank)
        if index >= count:
            raise UsageError(
                f"Loop(device={asked!r}): this process has LOCAL_RANK={index}, but PyTorch sees {count} "
                f"{'GPU' if count == 1 else 'GPUs'}; start at most {count} a machine: torchrun --nproc-per-node={count}"
            )
    elif index >= count:
        raise UsageError(
            f"Loop(device={asked!r}): PyTorch sees {count} {'GPU' if count == 1 else 'GPUs'}, numbered from cuda:0"
        )
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def unused_gpu(
    environment: Mapping[str, str] = os.environ,
    driver: Path = NVIDIA_DRIVER,
    cuda_build: str | None = torch.version.cuda,
    path: str | None = None,
) -> str | None:
    """Why PyTorch may see no GPU on a machine that has one from NVIDIA. None where there is no sign of one.

    `path`: where to look for nvidia-smi, PATH by default.
    """
    hidden = environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU from this process"
    if not driver.exists() and shutil.which("nvidia-smi", path=path) is None:
        return None
    if cuda_build is None and torch.version.hip is None:
        return (
            f"this machine has an NVIDIA driver, but PyTorch {torch.__version__} is a build for CPUs; install one with "
            "CUDA (pytorch.org/get-started)"
        )
    return (
        "this machine has an NVIDIA driver, but PyTorch cannot use it; `nvidia-smi` tells whether the driver works, "
        f"and whether it is new enough for CUDA {cuda_build}"
    )


def move(batch: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """`batch` with every tensor in it on `device`; what is no tensor stays as it is.

    Follows lists, tuples, named tuples, sets, mappings and dataclasses; any other object with a method `to` is asked to
    move. Containers keep their type; the batch that was given is not changed.
    """
    if isinstance(batch, torch.Tensor):
        if type(batch) is torch.Tensor and batch.device == device:
            return batch
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, str | bytes | int | float | complex | bool | type | None):
        return batch

    if type(batch) is list:  # what a DataLoader makes of pairs, on a CPU nearly always in its place
        for part in batch:
            if type(part) is not torch.Tensor or part.device != device:
                break
        else:
            return batch

    def moved(part: Any) -> Any:
        return move(part, device, non_blocking=non_blocking)

    if callable(getattr(batch, "to", None)):
        return _ask(batch, device, non_blocking)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(moved, batch))
    if isinstance(batch, list | tuple | AbstractSet):
        return _rebuilt(batch, [moved(part) for part in batch])
    if isinstance(batch, Mapping):
        return _mapping(batch, {key: moved(part) for key, part in batch.items()})
    if dataclasses.is_dataclass(batch):
        names = [f.name for f in dataclasses.fields(batch) if hasattr(batch, f.name)]
        return _with(batch, {name: moved(getattr(batch, name)) for name in names})
    return batch


def _ask(batch: Any, device: torch.device, non_blocking: bool) -> Any:
    """The object moved by its own method `to`. One that means something else by `to` stays as it is."""
    for arguments in ({"non_blocking": non_blocking}, {}):
        try:
            moved = batch.to(device, **arguments)
        except (TypeError, ValueError, AttributeError):
            continue
        return moved if isinstance(moved, type(batch)) else batch  # None, say: it moved in place
    return batch


def _rebuilt(batch: Any, parts: list[Any]) -> Any:
    if type(batch) is list:
        return parts
    try:
        return type(batch)(parts)
    except TypeError:  # a type of one's own with another constructor
        return parts if isinstance(batch, list) else tuple(parts) if isinstance(batch, tuple) else set(parts)


def _mapping(batch: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    if type(batch) is dict:
        return parts
    try:
        if not isinstance(batch, dict | UserDict):
            return type(batch)(parts)  # type: ignore[call-arg]
        moved = copy.copy(batch)  # keeps what else it holds: a default factory, attributes
        for key, part in parts.items():
            moved[key] = part
    except TypeError:  # it cannot be written to, or made from a dict
        return parts
    return moved


def _with(batch: Any, parts: dict[str, Any]) -> Any:
    """A copy of a dataclass with other values. Not `dataclasses.replace`: it would run __init__ and __post_init__."""
    moved = copy.copy(batch)
    for name, part in parts.items():
        object.__setattr__(moved, name, part)  # frozen ones too
    return moved
