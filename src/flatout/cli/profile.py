"""`flatout profile`: where did each step's time go?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from flatout.cli import values
from flatout.errors import UsageError
from flatout.findings.finding import SEVERITIES

_LEVELS = SEVERITIES[:3]


def profile(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, as it is.")],
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Argument(metavar="ARGUMENTS", help="Whatever follows is the script's own.", show_default=False),
    ] = None,
    steps: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="N", help="Stop the script after so many training steps.", show_default=False),
    ] = None,
    seconds: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="Stop it after that long, at a step's end: 90s, 10m.", show_default=False),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Keep the recording of the run.", show_default=False),
    ] = None,
    json: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.", show_default=False),
    ] = None,
    fail_on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--fail-on", metavar="LEVEL", help="Exit with 1 on a finding this bad: high, medium, low."),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as with python -m.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All findings.")] = False,
) -> None:
    """Run a training script and tell where its steps' time went, and what would make them shorter.

    The script runs whole, as without flatout, unless --steps or --seconds is given, and ends with its own exit code.
    Options of flatout come before the script; what follows it is the script's.
    """
    step_count = None if steps is None else values.count(steps, "--steps")
    time = None if seconds is None else values.duration_seconds(seconds, "--seconds")
    if fail_on is not None and fail_on not in _LEVELS:
        raise UsageError(f"--fail-on {fail_on}: no such level; give one of {', '.join(_LEVELS)}")
    values.check_json(json)
    # Only from here on is anything loaded that takes time.
    from flatout.cli.consoles import report_console
    from flatout.explain.explanation import explanation_of
    from flatout.launch import Target
    from flatout.recording import open_recording
    from flatout.report.explanation import print_explanation
    from flatout.report.json_file import json_text, write_json
    from flatout.watch.run import watch

    words = tuple(arguments or ())
    target = Target(module=script, arguments=words) if module else Target(path=script, arguments=words)
    with tempfile.TemporaryDirectory(prefix="flatout-", ignore_cleanup_errors=True) as folder:
        path = output or Path(folder) / "run.flatout"
        ended = watch(target, path, steps=step_count, seconds=time, stdout_to_stderr=json == "-")
        with open_recording(path) as recording:
            explanation = explanation_of(recording)
    print_explanation(explanation, report_console(), verbose)
    if json == "-":
        sys.stdout.write(json_text(explanation))
    elif json is not None:
        write_json(explanation, Path(json))
    worst = () if fail_on is None else _LEVELS[: _LEVELS.index(fail_on) + 1]
    raise typer.Exit(1 if any(one.severity in worst for one in explanation.findings) else ended.code)
