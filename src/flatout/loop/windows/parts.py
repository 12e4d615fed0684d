"""Cutting a batch along its first dimension: tensors, and tensors in lists, tuples, mappings and dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from flatout.errors import UsageError


def _lengths(batch: Any) -> Iterator[int]:
    if isinstance(batch, torch.Tensor):
        if batch.dim() > 0:
            yield batch.shape[0]
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from _lengths(part)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from _lengths(getattr(batch, field.name))
    elif isinstance(batch, list | tuple):
        for part in batch:
            yield from _lengths(part)


def batch_length(batch: Any) -> int:
    """How many samples a batch holds: the first dimension of its tensors, which all share."""
    lengths = set(_lengths(batch))
    if len(lengths) != 1:
        raise UsageError(
            "loop.step_in_parts(batch, compute_loss): "
            + ("the batch holds no tensor" if not lengths else f"its tensors have first dimensions {sorted(lengths)}")
            + "; a batch is cut along the first dimension, which all of its tensors must share"
        )
    return lengths.pop()


def split(batch: Any, length: int, size: int) -> list[Any]:
    """The batch of `length` samples in as few, and as even, parts of at most `size` samples as there can be."""
    count = max(1, -(-length // size))
    if count == 1:
        return [batch]
    edges = [length * i // count for i in range(count + 1)]
    return [cut(batch, length, start, end) for start, end in pairwise(edges)]


def cut(batch: Any, length: int, start: int, end: int) -> Any:
    """Samples `start` to `end`. A list of one thing per sample (strings, say) is cut too; other things are shared."""
    if isinstance(batch, torch.Tensor):
        return batch[start:end] if batch.dim() > 0 else batch
    if isinstance(batch, Mapping):
        parts = {key: cut(part, length, start, end) for key, part in batch.items()}
        return parts if type(batch) is dict else _like(batch, parts)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        copied = copy.copy(batch)
        for field in dataclasses.fields(batch):
            object.__setattr__(copied, field.name, cut(getattr(batch, field.name), length, start, end))
        return copied
    if isinstance(batch, list | tuple):
        if len(batch) == length and not any(True for _ in _lengths(batch)):
            return batch[start:end]
        pieces = [cut(part, length, start, end) for part in batch]
        return _of_kind(batch, pieces)
    return batch


def _of_kind(batch: Sequence[Any], pieces: list[Any]) -> Any:
    if type(batch) is list:
        return pieces
    return type(batch)(*pieces) if hasattr(batch, "_fields") else type(batch)(pieces)  # type: ignore[call-arg]


def _like(batch: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    copied = copy.copy(batch)
    copied.update(parts)  # type: ignore[attr-defined]
    return copied
