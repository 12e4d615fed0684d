"""A dry run: the script in a child with a virtual GPU, once for each GPU that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatout.errors import ScriptError
from flatout.launch import Exit, Relay, Target, supervise
from flatout.recording import open_recording, write_ending
from flatout.recording.schema import Ending, Outcome, Run
from flatout.virtual.judging import judge
from flatout.virtual.prediction import Prediction, Result, gather
from flatout.virtual.timing import Timing

if TYPE_CHECKING:
    from flatout.gpu import GPU

HOOK = "flatout.virtual.child:install"
# Each child computes on all cores, so more of them at once gain nothing and need more host memory.
_AT_ONCE = 2
# Loading PyTorch and putting the virtual GPU in place takes 2 s, on a busy or small machine far longer.
_LOADING_SECONDS = 120.0


@dataclass(frozen=True)
class DryRun:
    """What to run, and under which assumptions.

    `timeout_seconds` is for one run of the script; None waits for ever. `assume` gives values that the virtual GPU
    would have to make up. `options` are further options of the child. `timing` says on which host a step is timed.
    """

    target: Target
    steps: int
    timeout_seconds: float | None
    assume: Mapping[str, float | bool] = field(default_factory=dict)
    allow_writes: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True)
class Job:
    """One GPU, and where its recording goes. `scratch` is a directory for what is not kept."""

    gpu: GPU
    recording: Path
    scratch: Path


@dataclass(frozen=True)
class _Setting:
    """How a child is run: who hands signals on to it, and where its output goes."""

    relay: Relay
    stdout_to_stderr: bool
    quiet: bool = False


def predict(
    dry_run: DryRun,
    jobs: Sequence[Job],
    *,
    stdout_to_stderr: bool = False,
    all_output: bool = False,
    first_aloud: bool = True,
) -> Prediction:
    """Run the script once a job, at most two at once, and gather what that tells.

    The first job's script has the terminal where `first_aloud`; the output of the others is dropped unless
    `all_output`. Raises ScriptError
    when the script cannot be started, KeyboardInterrupt when a Ctrl-C came before all of them were.
    """
    with Relay() as relay, ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="flatout-dry-run") as pool:
        aloud = _Setting(relay, stdout_to_stderr)
        futures = []
        for index, job in enumerate(jobs):
            shown = all_output or (index == 0 and first_aloud)
            setting = aloud if shown else replace(aloud, quiet=True)
            futures.append(pool.submit(_run, dry_run, job, setting))
        try:
            done = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return gather(done[0][0], [result for _, result in done])


def unlimited_path(job: Job) -> Path:
    """Where a second run, without a limit, is recorded if the first ran out of memory."""
    return job.scratch / f"{job.recording.stem}-unlimited{job.recording.suffix}"


def _run(dry_run: DryRun, job: Job, setting: _Setting) -> tuple[Run, Result]:
    exit = _follow(dry_run, job, job.recording, setting)
    with open_recording(job.recording) as recording:
        result = judge(recording, job.gpu, exit, timing=dry_run.timing)
        if result.outcome != "out_of_memory" or result.error is None:
            return recording.run, result
        # The script stopped where memory ran out. How much it would have needed only a second run can tell.
        path = unlimited_path(job)
        _follow(dry_run, job, path, replace(setting, quiet=True), unlimited=True)
        with open_recording(path) as unlimited:
            return recording.run, judge(recording, job.gpu, exit, unlimited, timing=dry_run.timing)


def _follow(dry_run: DryRun, job: Job, path: Path, setting: _Setting, *, unlimited: bool = False) -> Exit:
    """One child, to its end. What it recorded is at `path`."""
    if setting.relay.interrupted:
        raise KeyboardInterrupt
    options = {
        **dry_run.options,
        "script": dry_run.target.name,
        "gpu": job.gpu.label,
        "steps": dry_run.steps,
        "recording": str(path.absolute()),
        "assume": dict(dry_run.assume),
        "allow_writes": dry_run.allow_writes,
        "unlimited": unlimited,
    }
    exit = supervise(
        dry_run.target,
        hook=HOOK,
        options=options,
        timeout_seconds=dry_run.timeout_seconds,
        loading_seconds=_LOADING_SECONDS,
        stdout_to_stderr=setting.stdout_to_stderr,
        quiet=setting.quiet,
        relay=setting.relay,
    )
    if not path.exists() and exit.timed_out:
        raise ScriptError(f"PyTorch was still being loaded after {exit.seconds:.0f} s: raise --timeout.")
    if not path.exists():
        reason = "it ended before the virtual GPU was there" if exit.failure is None else exit.failure.message
        raise ScriptError(f"the script could not be followed (exit code {exit.code}): {reason}")
    _note_ending(path, exit)
    return exit


def _note_ending(path: Path, exit: Exit) -> None:
    """Say in the recording how a process ended that could not say it itself."""
    with open_recording(path) as recording:
        if recording.ending is not None:
            return
        doing = recording.doing
    outcome: Outcome = "timeout" if exit.timed_out else "interrupted" if exit.interrupted else "killed"
    write_ending(path, Ending(outcome, exit.code, exit.failure, doing))
