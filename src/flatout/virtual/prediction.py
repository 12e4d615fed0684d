"""What a dry run tells about one script on some GPUs, as data; and how it is read out of a recording.

No torch here: a prediction is made from a recording, wherever that was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from flatout.recording.schema import Holder, Peak, Place, Run, Step, Wait

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.launch import Exit
    from flatout.recording import Recording

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
    """Why the script ended early: its exception, or what ended its process (`timeout`, `interrupted`, a signal)."""

    type: str
    message: str
    file: str | None = None
    line: int | None = None


class Result(msgspec.Struct, frozen=True):
    """What was predicted for one GPU.

    `needed_bytes` is known when there was no room: the memory that the same run takes on a GPU without a limit, taken
    apart in `unlimited`. `holders` and `per_step` belong to `unlimited` then, else to `memory`. `used_gpu` is False
    when the script never put anything on the GPU.
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


def judge(recording: Recording, gpu: GPU, exit: Exit, unlimited: Recording | None = None) -> Result:
    """What `recording`, a run of a script on a virtual `gpu`, says about the real one.

    `exit` is how the child process ended: a killed process could not write that itself. `unlimited` is a second run of
    the same script, on a GPU without a limit, made because the first ran out of memory.
    """
    peak = recording.peak()
    steps = _steps(recording)
    memory = _memory(peak, gpu)
    need = None if unlimited is None else _reliable_peak(unlimited)
    error = _error(recording, exit)
    shown = peak if need is None else need
    return Result(
        gpu=gpu.name,
        label=gpu.label,
        outcome=_outcome(memory, error, recording),
        memory=memory,
        error=error,
        exit_code=_exit_code(recording, exit),
        used_gpu=peak is not None and peak.allocated_bytes > 0,
        steps=len(steps),
        operations=sum(step.operations for step in steps),
        needed_bytes=None if need is None else need.reserved_bytes + gpu.context_bytes,
        unlimited=None if need is None else _memory(need, gpu),
        holders=() if shown is None else shown.holders,
        waits=tuple(recording.waits()),
        per_step=steps if unlimited is None or need is None else _steps(unlimited),
        facts=dict(recording.facts()),
        assumptions=tuple(_assumptions(recording, gpu)),
    )


def _steps(recording: Recording) -> tuple[Step, ...]:
    """The steps, counted from 1 as people do."""
    return tuple(msgspec.structs.replace(step, index=step.index + 1) for step in recording.steps())


def _memory(peak: Peak | None, gpu: GPU) -> Memory:
    """The figures of a peak on a GPU; zeros where nothing was ever put on it."""
    reserved_bytes = 0 if peak is None else peak.reserved_bytes
    at = None
    if peak is not None:
        file, line = _position(peak.place)
        at = PeakAt(step=peak.step + 1, phase=peak.phase, file=file, line=line)
    return Memory(
        capacity_bytes=gpu.memory_bytes,
        usable_bytes=gpu.usable_bytes,
        context_bytes=gpu.context_bytes,
        peak_allocated_bytes=0 if peak is None else peak.allocated_bytes,
        peak_reserved_bytes=reserved_bytes,
        upper_bound_bytes=0 if peak is None else peak.upper_bound_bytes,
        free_bytes=gpu.usable_bytes - gpu.context_bytes - reserved_bytes,
        peak_at=at,
        by_category={} if peak is None else dict(peak.by_category),
    )


def _outcome(memory: Memory, error: PredictedError | None, recording: Recording) -> PredictedOutcome:
    ending = recording.ending
    if error is not None:
        ran_out = (ending is not None and ending.outcome == "out_of_memory") or _is_out_of_memory(error.type)
        return "out_of_memory" if ran_out else "error"
    if memory.needed_bytes > memory.usable_bytes:
        return "out_of_memory"
    if memory.needed_at_most_bytes > memory.usable_bytes:
        return "may_not_fit"
    return "fits"


def _reliable_peak(unlimited: Recording) -> Peak | None:
    """The peak of the run without a limit, unless that run failed too: then the need is not known."""
    ending = unlimited.ending
    if ending is None or ending.outcome not in ("completed", "stopped") or ending.exit_code != 0:
        return None
    return unlimited.peak()


def _error(recording: Recording, exit: Exit) -> PredictedError | None:
    """Why the run did not reach its end; what happened to the process comes before what the script made of it."""
    ending = recording.ending
    outcome = None if ending is None else ending.outcome
    seen = recording.doing or ("" if ending is None else ending.doing)
    last_words = f" It was last seen: {seen}." if seen else ""
    if exit.timed_out or outcome == "timeout":
        message = f"stopped after {exit.seconds:.0f} s without reaching the steps asked for (raise --timeout)."
        return PredictedError("timeout", message + last_words)
    if exit.interrupted or outcome == "interrupted":
        return PredictedError("interrupted", "stopped by Ctrl-C." + last_words)
    failure = exit.failure if ending is None or ending.failure is None else ending.failure
    if failure is not None and failure.type == "SystemExit" and exit.code == 0:
        failure = None
    file, line = _position(None if failure is None else failure.place)
    if exit.signal is not None:
        name = "killed" if failure is None else failure.type
        return PredictedError(name, f"the process was {exit.explanation}." + last_words, file, line)
    code = _exit_code(recording, exit)
    if failure is not None and failure.type == "SystemExit":
        said = "" if failure.message in ("", str(code)) else f": {failure.message}"
        return PredictedError("SystemExit", f"the script ended itself with exit code {code}{said}", file, line)
    if failure is not None:
        return PredictedError(failure.type, failure.message, file, line)
    if outcome == "killed" or (ending is None and exit.code != 0):
        return PredictedError("killed", f"the process ended without a word (exit code {exit.code})." + last_words)
    if code != 0:
        return PredictedError("SystemExit", f"the script ended itself with exit code {code}")
    return None


def _is_out_of_memory(exception_type: str) -> bool:
    """`torch.OutOfMemoryError`, under its older names too, or a subclass that keeps the name."""
    return exception_type.rpartition(".")[2] == "OutOfMemoryError"


def _exit_code(recording: Recording, exit: Exit) -> int:
    ending = recording.ending
    return exit.code if ending is None or exit.code != 0 else ending.exit_code


def _position(place: Place | None) -> tuple[str | None, int | None]:
    if place is None:
        return None, None
    return place.file, place.line or None


def _assumptions(recording: Recording, gpu: GPU) -> list[str]:
    assumed = [_sentence(a.text, a.place, a.count) for a in recording.assumptions()]
    if gpu.usable_is_estimated:
        assumed.append(f"how much of its memory the {gpu.label} leaves to programs is an estimate")
    return assumed


def _sentence(text: str, place: Place | None, count: int) -> str:
    """One assumption as one line: what, where, how often."""
    where = "" if place is None else f"{place.file}:{place.line}"
    times = f"{count} times" if count > 1 else ""
    detail = ", ".join(part for part in (where, times) if part)
    return f"{text} ({detail})" if detail else text
