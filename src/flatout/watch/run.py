"""A watched run, from outside: the script in a supervised child, and how it ended in its recording."""

from __future__ import annotations

from pathlib import Path

from flatout.launch import Exit, Target, supervise
from flatout.recording import open_recording, write_ending
from flatout.recording.schema import Ending, Outcome

HOOK = "flatout.watch.child:install"


def watch(
    target: Target,
    recording: Path,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    stdout_to_stderr: bool = False,
) -> Exit:
    """Run the script, to its end unless `steps` or `seconds` say when it is to be stopped; record it at `recording`.

    Raises `ScriptError` where it cannot be started, `UsageError` where nothing can be recorded there.
    """
    options = {
        "recording": str(recording.absolute()),
        "script": target.name,
        "arguments": list(target.arguments),
        "steps": steps,
        "seconds": seconds,
    }
    exit = supervise(target, hook=HOOK, options=options, stdout_to_stderr=stdout_to_stderr)
    if recording.exists():
        _note_ending(recording, exit)
    return exit


def _note_ending(path: Path, exit: Exit) -> None:
    """Say how a process ended that could not say it itself: it was killed, or left by `os._exit`."""
    with open_recording(path) as recording:
        if recording.ending is not None and recording.ending.exit_code == exit.code:
            return
        doing = recording.doing
    outcome: Outcome = "killed"
    if exit.interrupted:
        outcome = "interrupted"
    elif exit.signal is None:
        outcome = "error" if exit.code else "completed"
    write_ending(path, Ending(outcome, exit.code, exit.failure, doing))
