"""The verdict on one GPU, in words: will it fit, and how much is left or missing."""

from __future__ import annotations

from dataclasses import dataclass

from flatout.report.sources import place_text
from flatout.report.units import count_text, size_text
from flatout.virtual.prediction import Memory, PredictedError, Result


@dataclass(frozen=True)
class Verdict:
    """`word` is the answer, `detail` its figure, `style` a colour that repeats it, `sign` one character for it.

    `note` is what the answer must not be read without; mostly it is empty.
    """

    word: str
    detail: str
    style: str
    sign: str
    note: str = ""


def verdict_of(result: Result) -> Verdict:
    """The answer for a GPU. Every outcome has its own words: the style is never needed to tell them apart."""
    if result.error is not None and result.says_nothing:
        return Verdict("cannot tell", unanswered(result, result.error), "yellow", "?")
    if result.outcome == "error":
        return Verdict("fails", _failure(result), "red", "✗")
    if result.outcome == "out_of_memory":
        return Verdict("does not fit", _missing(result), "red", "✗")
    if result.memory is None or not result.used_gpu:
        return Verdict("does not use the GPU", "the script put nothing on it", "yellow", "–")
    note = _caught(result)
    if result.outcome == "may_not_fit":
        return Verdict("may not fit", _unsure(result.memory), "yellow", "?", note)
    return Verdict("fits", _left(result.memory), "green", "✓", note)


def _caught(result: Result) -> str:
    """What a script that went on after running out of memory settled for is not what it first tried."""
    times = result.out_of_memory_caught
    if not times:
        return ""
    steps = "" if result.steps else ", no step seen"
    return f"out of memory caught {'once' if times == 1 else f'{times:,} x'}{steps}"


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


def unanswered(result: Result, error: PredictedError) -> str:
    """Why a run tells nothing of the GPU."""
    when = f"after {count_text(result.steps, 'step')}" if result.steps else "before the first step"
    if error.cause == "timeout":
        return f"the time given to it ran out {when}"
    if error.cause == "interrupted":
        return f"stopped by Ctrl-C {when}"
    if error.cause == "script" and error.type == "EOFError":
        return "the script asks for input, and there was none"
    if error.cause == "script":
        return _ended_itself(result, error)
    if error.cause == "flatout":
        return "flatout itself made a mistake"
    where = f" at {place_text(error.file, error.line)}" if error.file else ""
    return f"the virtual GPU refuses what the script does{where}"


def _ended_itself(result: Result, error: PredictedError) -> str:
    when = f"after {count_text(result.steps, 'step')}" if result.steps else "before its first step"
    how = f"exit code {result.exit_code}" if error.type == "SystemExit" else error.type
    first = "the script ran out of memory, caught that, and" if result.out_of_memory_caught else "the script"
    return f"{first} ended itself {when} ({how})"


def _failure(result: Result) -> str:
    error = result.error
    if error is None:
        return "for a reason that is not known"
    if error.cause == "script":
        return _ended_itself(result, error)
    where = f" at {place_text(error.file, error.line)}" if error.file else ""
    return f"{error.type}{where}"
