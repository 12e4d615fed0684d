"""The parent's side: start the script, let it run as if it were alone, tell how it ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from flatout import errors
from flatout.errors import FlatoutError, ScriptError
from flatout.launch import entry
from flatout.launch.control import Control
from flatout.launch.family import GRACE_SECONDS, NEW_GROUP, Family
from flatout.launch.outcome import Exit, failure_from_crash, failure_from_report
from flatout.launch.relay import Relay
from flatout.launch.target import Target

_STDERR = 2
_POLL_SECONDS = 0.05


def supervise(
    target: Target,
    *,
    hook: str,
    options: Mapping[str, Any],
    timeout_seconds: float | None = None,
    loading_seconds: float = 0.0,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    stdout_to_stderr: bool = False,
    quiet: bool = False,
    relay: Relay | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> Exit:
    """Run `target` in a child process with this process's own stdin, stdout, stderr and folder, and wait for its end.

    `hook` ("package.module:function") is called there with `options`, which JSON must be able to carry, before the
    script's first line; see `flatout.launch.hooks`. `environment` is the child's whole environment, by default this
    process's. When `timeout_seconds` are over the script gets SIGINT, `grace_seconds` later SIGTERM, and
    `grace_seconds` after that SIGKILL, with everything that it started. Up to `loading_seconds` that the hook takes are
    not counted: what is loaded there would be the script's to load only later.

    `quiet` gives it neither input nor output. Signals are handed on only in the main thread; for scripts that other
    threads supervise, enter a `relay` there and pass it to each call.

    Raises `ScriptError` where the script could not be started, and the hook's own `FlatoutError` where it refused.
    """
    target.check()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="flatout-", ignore_cleanup_errors=True))
        relay = relay or stack.enter_context(Relay())
        control = Control(folder)
        ready = _prepare(control, hook, options, os.environ if environment is None else environment)
        started = time.monotonic()
        family = Family(_start([python, *target.command()], ready, _streams(stdout_to_stderr, quiet)))
        relay.serve(family)
        try:
            timed_out = not _ends_within(family.child, timeout_seconds, control, loading_seconds)
            if timed_out:
                family.end(grace_seconds)
        except BaseException:  # whatever ends this process must not leave the script behind
            family.kill()
            raise
        finally:
            relay.leave(family)
        seconds = time.monotonic() - started
        returned = family.child.returncode
        if returned < 0:
            family.kill()  # the workers of a process that was killed
        if not control.has_started() and not timed_out and not relay.interrupted:
            _explain_no_start(control, python, returned)
        return _exit(control, returned, seconds, timed_out, relay.interrupted)


def _prepare(control: Control, hook: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Fill the control folder; return the environment that leads the child into it."""
    python_path = environment.get("PYTHONPATH")
    root = str(Path(entry.__file__).parent.parent)
    orders = {"hook": hook, "options": dict(options), "python_path": python_path, "root": root}
    control.write("orders", orders)
    shutil.copyfile(entry.__file__, control.folder / "sitecustomize.py")
    first = str(control.folder)
    return {**environment, "PYTHONPATH": f"{first}{os.pathsep}{python_path}" if python_path else first}


def _streams(stdout_to_stderr: bool, quiet: bool) -> dict[str, int | None]:
    if quiet:
        return {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return {"stdout": _STDERR if stdout_to_stderr else None}


def _start(command: list[str], environment: dict[str, str], streams: dict[str, int | None]) -> subprocess.Popen[bytes]:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what was said before the script comes before what it says
    options: dict[str, Any] = {"env": environment, **streams, **NEW_GROUP}
    try:
        return subprocess.Popen(command, **options)
    except OSError as error:
        raise ScriptError(f"{command[0]}: cannot start this Python ({error.strerror}). Give another.") from None


def _ends_within(
    child: subprocess.Popen[bytes], seconds: float | None, control: Control, loading_seconds: float
) -> bool:
    loaded_by = time.monotonic() + loading_seconds
    while seconds is not None and not control.has_started() and time.monotonic() < loaded_by:
        try:
            child.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return True
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _exit(control: Control, returned: int, seconds: float, timed_out: bool, interrupted: bool) -> Exit:
    report = control.read("report")
    number = -returned if returned < 0 else None
    trace = control.read_crash()
    failure = None
    if returned != 0:  # an exception that the script met and survived is no failure
        failure = failure_from_report(report.get("failure"))
    if failure is None and number is not None:
        failure = failure_from_crash(number, trace)
    return Exit(
        code=returned if number is None else 128 + number,
        seconds=seconds,
        signal=number,
        timed_out=timed_out,
        interrupted=interrupted,
        stopped=bool(report.get("stopped")),
        failure=failure,
        trace=trace,
        trouble=str(report.get("trouble", "")),
    )


def _explain_no_start(control: Control, python: str, returned: int) -> NoReturn:
    trouble = control.read("trouble")
    if not trouble:
        how = f"signal {signal.Signals(-returned).name}" if returned < 0 else f"exit code {returned}"
        raise ScriptError(
            f"{python}: flatout could not follow the script ({how}). This Python did not run `sitecustomize`: "
            "use one that runs `site` and obeys PYTHONPATH."
        )
    kind = getattr(errors, str(trouble["type"]).rpartition(".")[2], None)
    if isinstance(kind, type) and issubclass(kind, FlatoutError):
        raise kind(trouble["message"])
    place = trouble["place"]
    where = f" at {place['file']}:{place['line']}" if place else ""
    raise ScriptError(f"flatout failed before the script began: {trouble['type']}: {trouble['message']}{where}")
