"""`flatout predict`: will this script run on that GPU, and does it fit?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flatout.cli import values
from flatout.cli.main import INTERRUPTED
from flatout.errors import UsageError

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.virtual.prediction import Prediction

DEFAULT_GPU = "a100"
_OWN_OPTIONS = ("--gpu", "--steps", "--timeout", "--json", "--output", "--assume", "--gpus-file", "--allow-writes")


def predict(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, as it is.")],
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Argument(metavar="ARGUMENTS", help="Whatever follows is the script's own.", show_default=False),
    ] = None,
    gpu: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME[,NAME...]", help="GPUs to predict for; flatout gpus lists them.", show_default=False
        ),
    ] = None,
    steps: Annotated[str, typer.Option(metavar="N", help="Optimizer steps to run before the script is stopped.")] = "3",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Longest time for one run: 90s, 10m, none.")] = "10m",
    json: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the result as JSON; - for standard output.", show_default=False),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Keep the recording of the run.", show_default=False),
    ] = None,
    assume: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME=VALUE", help="A value to use where the GPU's is unknown.", show_default=False),
    ] = None,
    gpus_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="TOML", help="More GPUs, described in a file of yours.", show_default=False),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as with python -m.")] = False,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the script overwrite files with made-up values.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also the lines that hold the most, waits, steps, facts.")
    ] = False,
    gpus: Annotated[Optional[str], typer.Option(hidden=True)] = None,  # noqa: UP045
    strategy: Annotated[Optional[str], typer.Option(hidden=True)] = None,  # noqa: UP045
) -> None:
    """Run a training script on a GPU that is not here: does it work, does it fit, where does memory peak?

    The script is executed, up to --steps optimizer steps: this is no sandbox.
    Options of flatout come before the script; what follows it is the script's.
    """
    _refuse("--gpus", gpus)
    _refuse("--strategy", strategy)
    step_count = values.count(steps, "--steps")
    timeout_seconds = values.duration_seconds(timeout, "--timeout")
    assumed = values.assumptions(assume or [], "--assume")
    _check_folder(json)
    chosen, note = _choose(gpu, gpus_file)
    # Only from here on is anything loaded that takes time.
    from flatout.cli.consoles import report_console
    from flatout.cli.outputs import recording_paths
    from flatout.launch import Target
    from flatout.report.terminal import print_prediction
    from flatout.virtual.dry_run import DryRun, Job
    from flatout.virtual.dry_run import predict as predict_all

    words = tuple(arguments or ())
    dry_run = DryRun(
        target=Target(module=script, arguments=words) if module else Target(path=script, arguments=words),
        steps=step_count,
        timeout_seconds=timeout_seconds,
        assume=assumed,
        allow_writes=allow_writes,
        options={} if gpus_file is None else {"gpus_file": str(gpus_file.absolute())},
    )
    with tempfile.TemporaryDirectory(prefix="flatout-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        paths = recording_paths(output, [one.label for one in chosen], scratch)
        jobs = [Job(one, path, scratch) for one, path in zip(chosen, paths, strict=True)]
        prediction = predict_all(dry_run, jobs, stdout_to_stderr=json == "-", all_output=verbose)
    sys.stdout.flush()
    console = report_console()
    print_prediction(prediction, console, verbose=verbose)
    for hint in (note, _misplaced(prediction)):
        if hint:
            console.print(f"\n{hint}", style="dim", markup=False)
    _write(prediction, json)
    raise typer.Exit(_exit_code(prediction))


def _exit_code(prediction: Prediction) -> int:
    if any(result.error is not None and result.error.type == "interrupted" for result in prediction.results):
        return INTERRUPTED
    if all(result.ended_itself for result in prediction.results):
        return UsageError.exit_code  # of the script: it would end like this on every machine
    return 1 if prediction.is_bad_news else 0


def _refuse(option: str, value: str | None) -> None:
    if value is not None:
        raise UsageError(f"{option} is not there yet: flatout predicts for one GPU at a time; leave {option} out")


def _check_folder(json: str | None) -> None:
    """Better before the script runs than after ten minutes."""
    if json is not None and not json.strip():
        raise UsageError("--json '' has no name; give the name of a file, or - for standard output")
    if json not in (None, "-") and Path(str(json)).is_dir():
        raise UsageError(f"--json {json}: that is a directory; give the name of a file")
    if json not in (None, "-") and not Path(str(json)).absolute().parent.is_dir():
        raise UsageError(f"--json {json}: there is no such directory; make it, or give another file to --json")


def _choose(gpu: str | None, gpus_file: Path | None) -> tuple[list[GPU], str]:
    """The GPUs to predict for; and a remark when that was not said."""
    from flatout.gpu import find

    if gpu is not None:
        wanted = [find(name, gpus_file) for name in values.names(gpu, "--gpu")]
        return list({one.label: one for one in wanted}.values()), ""
    from flatout.gpu.machine import own_gpu

    own = own_gpu()
    if own is not None:
        return [own], f"No --gpu was given: this is for this machine's own, {own.label}."
    default = find(DEFAULT_GPU, gpus_file)
    return [default], f"No --gpu was given: this is for {default.label}. Others: --gpu NAME; flatout gpus lists them."


def _misplaced(prediction: Prediction) -> str:
    """A hint for who put an option of flatout behind the script and saw the script refuse it."""
    refused = any(result.error is not None and result.error.type == "SystemExit" for result in prediction.results)
    behind = [word for word in prediction.arguments if word.split("=")[0] in _OWN_OPTIONS]
    if not refused or not behind:
        return ""
    return (
        f"{behind[0]} stands behind the script, so it is the script's own; options of flatout come before the script."
    )


def _write(prediction: Prediction, json: str | None) -> None:
    from flatout.report.json_file import json_text, write_json

    if json == "-":
        sys.stdout.write(json_text(prediction))
    elif json is not None:
        write_json(prediction, Path(json))
