"""The device to train on, and moving batches to it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from flatout.errors import UsageError


@dataclass(frozen=True)
class Choice:
    """The chosen device, and the reason in words."""

    device: torch.device
    why: str


def choose_device(asked: str | torch.device = "auto") -> Choice:
    """The device to train on: CUDA's `LOCAL_RANK`, else its first GPU, else MPS, else the CPU."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if str(asked) != "auto":
        try:
            device = torch.device(asked)
        except RuntimeError:
            raise UsageError(
                f"Loop(device={asked!r}): no device of that kind; give auto, cpu, cuda, cuda:1 or mps"
            ) from None
        if str(device) == "cuda":
            device = torch.device("cuda", local_rank)
        return Choice(device, "asked for")
    if torch.cuda.is_available():
        return Choice(torch.device("cuda", local_rank), torch.cuda.get_device_name(local_rank))
    if torch.backends.mps.is_available():
        return Choice(torch.device("mps"), "Apple's GPU")
    return Choice(torch.device("cpu"), "PyTorch sees no GPU")


def move(batch: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """`batch` with every tensor in it on `device`; what is no tensor stays as it is.

    Follows lists, tuples, named tuples, mappings and dataclasses; any other object with a method `to` is asked to move.
    """
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, str | bytes | int | float | complex | bool | None):
        return batch
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(move(part, device, non_blocking=non_blocking) for part in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(move(part, device, non_blocking=non_blocking) for part in batch)
    if hasattr(batch, "to") and not isinstance(batch, type):
        try:
            return batch.to(device, non_blocking=non_blocking)
        except TypeError:
            return batch.to(device)
    if isinstance(batch, Mapping):
        moved = {key: move(part, device, non_blocking=non_blocking) for key, part in batch.items()}
        return moved if type(batch) is dict else type(batch)(moved)  # type: ignore[call-arg]
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        parts = {
            f.name: move(getattr(batch, f.name), device, non_blocking=non_blocking) for f in dataclasses.fields(batch)
        }
        return dataclasses.replace(batch, **parts)
    return batch
