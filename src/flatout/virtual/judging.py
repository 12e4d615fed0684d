"""How a prediction is read out of a recording. No torch here: the recording may come from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flatout.recording.schema import Peak, Place, Step
from flatout.virtual.prediction import Memory, PeakAt, PredictedError, PredictedOutcome, Result

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.launch import Exit
    from flatout.recording import Recording


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
        stopped=recording.ending is not None and recording.ending.outcome == "stopped",
        needed_bytes=None if need is None else need.reserved_bytes + gpu.context_bytes,
        unlimited=None if need is None else _memory(need, gpu),
        holders=() if shown is None else shown.holders,
        waits=tuple(recording.waits()),
        per_step=steps if unlimited is None or need is None else _steps(unlimited),
        facts=dict(recording.facts()),
        assumptions=(*_assumptions(recording, gpu), *_trouble(exit)),
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
    failure = exit.failure if ending is None or ending.failure is None else ending.failure
    if exit.timed_out or outcome == "timeout":
        message = "stopped by --timeout without reaching the steps asked for (raise --timeout)."
        return PredictedError("timeout", message + last_words, *_position(None if failure is None else failure.place))
    if exit.interrupted or (outcome == "interrupted" and failure is None):
        return PredictedError("interrupted", "stopped by Ctrl-C." + last_words)
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
    if failure is not None and any(words in failure.message for words in _PYTORCHS_OWN_MISTAKE):
        message = f"PyTorch cannot do this on a virtual GPU, which says nothing of a real one: {failure.message}"
        return PredictedError("flatout.errors.UnsupportedError", message, file, line)
    if failure is not None:
        return PredictedError(failure.type, failure.message, file, line, failure.notes)
    if exit.trouble and outcome in (None, "killed"):
        return PredictedError("flatout", f"a mistake of flatout's own at the end of the run: {exit.trouble}")
    if outcome == "killed" or (ending is None and exit.code != 0):
        message = f"the process ended without a word (exit code {exit.code}), as by os._exit."
        return PredictedError("killed", message + last_words)
    if code != 0:
        return PredictedError("SystemExit", f"the script ended itself with exit code {code}")
    return None


# What PyTorch says where its own assumptions do not hold: here that is because the GPU is virtual.
_PYTORCHS_OWN_MISTAKE = ("INTERNAL ASSERT FAILED", "report a bug to PyTorch", "Please file an issue", "Internal error:")


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


def _trouble(exit: Exit) -> list[str]:
    """That flatout itself failed at the end: what it recorded last may be missing."""
    return (
        [f"flatout failed at the end of the run, and its last figures may be missing: {exit.trouble}"]
        if exit.trouble
        else []
    )


def _sentence(text: str, place: Place | None, count: int) -> str:
    """One assumption as one line: what, where, how often."""
    where = "" if place is None else f"{place.file}:{place.line}"
    times = f"{count} times" if count > 1 else ""
    detail = ", ".join(part for part in (where, times) if part)
    return f"{text} ({detail})" if detail else text
