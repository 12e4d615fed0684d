"""What a dry run tells about one script on some GPUs, as data. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from flatout.recording.schema import Holder, Run, Step, Wait

SCHEMA = "flatout.prediction/1"

PredictedOutcome: TypeAlias = Literal["fits", "may_not_fit", "out_of_memory", "error"]
GOOD_NEWS: tuple[PredictedOutcome, ...] = ("fits", "may_not_fit")


class PeakAt(msgspec.Struct, frozen=True):
    """When and where memory was highest. `step` counts from 1.

    `file` and `line` are None where no line of the script is known.
    """

    step: int
    phase: str
    file: str | None = None
    line: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """Memory of one run, in bytes.

    `capacity_bytes` is what the maker prints on the box, `usable_bytes` what CUDA reports as total, `context_bytes`
    what CUDA itself takes outside PyTorch. `free_bytes` is `usable - context - peak reserved`: negative when memory is
    missing.
    """

    capacity_bytes: int
    usable_bytes: int
    context_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    upper_bound_bytes: int
    free_bytes: int
    peak_at: PeakAt | None
    by_category: dict[str, int]

    @property
    def needed_bytes(self) -> int:
        """All of the GPU that the run takes: peak reserved and CUDA's context."""
        return self.peak_reserved_bytes + self.context_bytes

    @property
    def needed_at_most_bytes(self) -> int:
        """The same if every workspace of unknown size took the most that it may take."""
        return max(self.upper_bound_bytes, self.peak_reserved_bytes) + self.context_bytes


class PredictedError(msgspec.Struct, frozen=True):
    """Why the script ended early: its exception, or what ended its process (`timeout`, `interrupted`, a signal).

    `message` is the exception's own, word for word; `notes` say more of it, as which index was out of range.
    """

    type: str
    message: str
    file: str | None = None
    line: int | None = None
    notes: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """What was predicted for one GPU.

    `needed_bytes` is known when there was no room: the memory that the same run takes on a GPU without a limit, taken
    apart in `unlimited`. `holders` and `per_step` belong to `unlimited` then, else to `memory`. `used_gpu` is False
    when the script never put anything on the GPU. `stopped`: flatout ended the script after
    the steps asked for, so what comes after them (validation, saving) was not seen.
    """

    gpu: str
    label: str
    outcome: PredictedOutcome
    memory: Memory | None
    error: PredictedError | None
    exit_code: int
    used_gpu: bool
    steps: int
    operations: int
    stopped: bool = False
    time: None = None
    largest_batch: None = None
    needed_bytes: int | None = None
    unlimited: Memory | None = None
    holders: tuple[Holder, ...] = ()
    waits: tuple[Wait, ...] = ()
    per_step: tuple[Step, ...] = ()
    facts: dict[str, Any] = {}
    assumptions: tuple[str, ...] = ()


class Prediction(msgspec.Struct, frozen=True):
    """One script on one or more GPUs: the JSON of `flatout predict`."""

    schema: str
    torch: str
    script: str
    arguments: tuple[str, ...]
    results: tuple[Result, ...]
    assumptions: tuple[str, ...]
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def is_bad_news(self) -> bool:
        """Whether some GPU does not fit, or the script fails on it."""
        return any(result.outcome not in GOOD_NEWS for result in self.results)


def gather(run: Run, results: Sequence[Result]) -> Prediction:
    """The prediction for one script from its results, one a GPU. `run` is what was run, on any of them."""
    assumptions = dict.fromkeys(text for result in results for text in result.assumptions)
    return Prediction(
        schema=SCHEMA,
        # Which build of PyTorch the dry run had (`+cpu`, `+cu128`) says nothing about the GPU's.
        torch=run.torch_version.partition("+")[0],
        script=run.script,
        arguments=run.arguments,
        results=tuple(results),
        assumptions=tuple(assumptions),
    )
