"""The verdict on one GPU, in words: will it fit, and how much is left or missing."""

from __future__ import annotations

from dataclasses import dataclass

from flatout.report.sources import place_text
from flatout.report.units import size_text
from flatout.virtual.prediction import Memory, Result


@dataclass(frozen=True)
class Verdict:
    """`word` is the answer, `detail` its figure, `style` a colour that repeats it, `sign` one character for it."""

    word: str
    detail: str
    style: str
    sign: str


def verdict_of(result: Result) -> Verdict:
    """The answer for a GPU. Every outcome has its own words: the style is never needed to tell them apart."""
    if result.outcome == "error" and result.error is not None and result.error.type.endswith("UnsupportedError"):
        return Verdict("cannot tell", _failure(result), "yellow", "?")
    if result.outcome == "error":
        return Verdict("fails", _failure(result), "red", "✗")
    if result.outcome == "out_of_memory":
        return Verdict("does not fit", _missing(result), "red", "✗")
    if result.memory is None or not result.used_gpu:
        return Verdict("does not use the GPU", "the script put nothing on it", "yellow", "–")
    if result.outcome == "may_not_fit":
        return Verdict("may not fit", _unsure(result.memory), "yellow", "?")
    return Verdict("fits", _left(result.memory), "green", "✓")


def _left(memory: Memory) -> str:
    return f"{size_text(memory.free_bytes)} left of {size_text(memory.usable_bytes)}"


def _unsure(memory: Memory) -> str:
    least, most = size_text(memory.needed_bytes), size_text(memory.needed_at_most_bytes)
    return f"needs at least {least}, perhaps {most}, of {size_text(memory.usable_bytes)}"


def _missing(result: Result) -> str:
    memory = result.unlimited or result.memory
    if memory is None:
        return "out of memory"
    # Below the limit nothing is missing by this count: the allocator could not find the room in one piece.
    if memory.needed_bytes <= memory.usable_bytes:
        return f"out of memory with {size_text(memory.needed_bytes)} of {size_text(memory.usable_bytes)} in use"
    missing = size_text(memory.needed_bytes - memory.usable_bytes)
    return f"needs {size_text(memory.needed_bytes)}, {missing} more than it has"


def _failure(result: Result) -> str:
    error = result.error
    if error is None:
        return "for a reason that is not known"
    where = f" at {place_text(error.file, error.line)}" if error.file else ""
    return f"{error.type}{where}"
