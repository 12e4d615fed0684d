"""Values for what cannot be known: sensible, finite, and such that loops on them end.

Every value that is read by the host and was made up here is told to the machine, with the line of the script.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from flatout.steps.places import reading_line, user_place
from flatout.virtual import machine as machines
from flatout.virtual.hints import Hint
from flatout.virtual.tensor import allocation_of

GUARD = 100
"""After this many reads at one line within one step, the value begins to move so that a loop on it ends."""

_seed = 20_260_101
_counts: dict[Any, int] = {}


class _Reads(NamedTuple):
    """How often invented values were read within this step, this time included.

    `here` counts for the line of the user's; `repeated` for the line that really reads, in a library or the user's: an
    optimizer asks many different questions in one call of ``step``, and is in no endless loop yet.
    """

    here: int
    repeated: int


def _reads() -> _Reads:
    place, step = user_place(), machines.current().step
    counts = []
    for key in ((place, step), (place, step, reading_line())):
        _counts[key] = count = _counts.get(key, 0) + 1
        counts.append(count)
    return _Reads(*counts)


def _assumed(kind: str) -> float | None:
    """What ``--assume`` says for this line (``train.py:42``) or for all values of a kind (``float``, ``mask``...)."""
    assume = machines.current().assume
    if not assume:
        return None
    place = user_place()
    if place is not None:
        name = place.file.replace("\\", "/").rpartition("/")[2]
        for key in (f"{place.file}:{place.line}", f"{name}:{place.line}"):
            if key in assume:
                return assume[key]
    return assume.get(kind)


def hint_of(tensor: torch.Tensor) -> Hint | None:
    """What is known *about* an unknown content."""
    hint: Hint | None = allocation_of(tensor).bounds
    return hint


def scalar_like(tensor: torch.Tensor) -> Any:
    """A plausible value of a one-element tensor whose content is not known."""
    machine = machines.current()
    machine.taint()
    reads = _reads()
    hint = hint_of(tensor)
    if tensor.dtype is torch.bool:
        return _boolean(hint, reads)
    if tensor.is_complex():
        return complex(_float(hint, reads, machine.step), 0.0)
    if tensor.is_floating_point():
        return _float(hint, reads, machine.step)
    return _integer(hint, reads)


def _boolean(hint: Hint | None, reads: _Reads) -> bool:
    assumed = _assumed("boolean")
    first = bool(assumed) if assumed is not None else hint is not None and hint.likely
    flipped = ((reads.repeated - 1) // GUARD) % 2 == 1
    value = first != flipped
    machines.current().assume_that(f"a condition computed on the GPU was taken to be {value}")
    return value


def _float(hint: Hint | None, reads: _Reads, step: int) -> float:
    assumed = _assumed("float")
    if assumed is not None:
        return assumed
    machines.current().assume_that("numbers that the GPU would compute (losses, metrics) are made up", anywhere=True)
    if hint is not None and hint.high is not None:
        return (hint.low or 0.0) + ((hint.high - (hint.low or 0.0)) / 2)
    value = 2.0 / (1.0 + 0.05 * step + 0.002 * reads.here)
    if reads.repeated <= GUARD:
        return value
    if reads.repeated <= 3 * GUARD:  # a loop that waits for it to become small
        return value * 0.5 ** (reads.repeated - GUARD)
    return 2.0 ** min(reads.repeated - 3 * GUARD, 100)  # ... or large


def _integer(hint: Hint | None, reads: _Reads) -> int:
    assumed = _assumed("integer")
    if assumed is not None:
        return int(assumed)
    low = int(hint.low) if hint is not None and hint.low is not None else 0
    high = int(hint.high) if hint is not None and hint.high is not None else low + 2
    width = max(high - low, 1)
    value = low + (width // 2 + reads.here - 1) % width
    machines.current().assume_that("whole numbers that the GPU would compute were made up, within their range")
    return value


def tensor_like(tensor: torch.Tensor) -> torch.Tensor:
    """A plausible CPU tensor of that shape and dtype. The same call gives the same content in every run."""
    machines.current().taint()
    hint = hint_of(tensor)
    generator = torch.Generator().manual_seed(_seed + tensor.numel())
    shape, dtype = tensor.shape, tensor.dtype
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return _floats(hint, shape, generator).to(dtype)
    low = int(hint.low) if hint is not None and hint.low is not None else 0
    high = int(hint.high) if hint is not None and hint.high is not None else low + 1
    return torch.randint(low, max(high, low + 1), shape, generator=generator).to(dtype)


def _floats(hint: Hint | None, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    if hint is None or hint.low is None:
        return torch.randn(shape, generator=generator)
    uniform = torch.rand(shape, generator=generator)
    if hint.simplex_dim is not None and uniform.dim():
        return uniform / uniform.sum(hint.simplex_dim % uniform.dim(), keepdim=True)
    return uniform * ((hint.high if hint.high is not None else 1.0) - hint.low) + hint.low


def share_of(kind: str, total: int) -> int:
    """How many of `total` elements an unknown mask selects: half, or what ``--assume mask=0.15`` says."""
    assumed = _assumed("mask")
    share = 0.5 if assumed is None else min(max(assumed, 0.0), 1.0)
    count = int(total * share)
    machines.current().taint()
    machines.current().assume_that(f"{kind}: {count} of {total} elements were taken to be selected")
    return count
