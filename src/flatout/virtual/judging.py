"""How a prediction is read out of a recording. No torch here: the recording may come from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flatout.recording.schema import Assumption, Peak, Step
from flatout.virtual.early_end import early_end, exit_code, position
from flatout.virtual.prediction import Memory, PeakAt, PredictedError, PredictedOutcome, Result
from flatout.virtual.timing import Timing, predicted_time

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.launch import Exit
    from flatout.recording import Recording


def judge(
    recording: Recording, gpu: GPU, exit: Exit, unlimited: Recording | None = None, timing: Timing | None = None
) -> Result:
    """What `recording`, a run of a script on a virtual `gpu`, says about the real one.

    `exit` is how the child process ended: a killed process could not write that itself. `unlimited` is a second run of
    the same script, on a GPU without a limit, made because the first ran out of memory. `timing`: on which host.
    """
    peak = recording.peak()
    steps = _steps(recording)
    memory = _memory(peak, gpu)
    need = None if unlimited is None else _reliable_peak(unlimited)
    error = early_end(recording, exit)
    shown = peak if need is None else need
    return Result(
        gpu=gpu.name,
        label=gpu.label,
        outcome=_outcome(memory, error, recording),
        memory=memory,
        error=error,
        exit_code=exit_code(recording, exit),
        used_gpu=peak is not None and peak.allocated_bytes > 0,
        steps=len(steps),
        operations=sum(step.operations for step in steps),
        time=None if error is not None else predicted_time(recording.tape(), gpu, timing),
        stopped=recording.ending is not None and recording.ending.outcome == "stopped",
        needed_bytes=None if need is None else need.reserved_bytes + gpu.context_bytes,
        unlimited=None if need is None else _memory(need, gpu),
        holders=() if shown is None else shown.holders,
        waits=tuple(recording.waits()),
        per_step=steps if unlimited is None or need is None else _steps(unlimited),
        facts=dict(recording.facts()),
        assumptions=_assumptions(recording, gpu, exit),
    )


def _steps(recording: Recording) -> tuple[Step, ...]:
    """The steps, counted from 1 as people do."""
    return tuple(msgspec.structs.replace(step, index=step.index + 1) for step in recording.steps())


def _memory(peak: Peak | None, gpu: GPU) -> Memory:
    """The figures of a peak on a GPU; zeros where nothing was ever put on it."""
    reserved_bytes = 0 if peak is None else peak.reserved_bytes
    at = None
    if peak is not None:
        file, line = position(peak.place)
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


def _is_out_of_memory(exception_type: str) -> bool:
    """`torch.OutOfMemoryError`, under its older names too, or a subclass that keeps the name."""
    return exception_type.rpartition(".")[2] == "OutOfMemoryError"


def _assumptions(recording: Recording, gpu: GPU, exit: Exit) -> tuple[Assumption, ...]:
    assumed = list(recording.assumptions())
    if gpu.usable_is_estimated:
        assumed.append(Assumption(f"how much of its memory the {gpu.label} leaves to programs is an estimate"))
    if exit.trouble:
        said = f"flatout failed at the end of the run, and its last figures may be missing: {exit.trouble}"
        assumed.append(Assumption(said))
    return tuple(assumed)
