"""`flatout predict`: will this script run on that GPU, and does it fit?"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional

import typer

from flatout.cli import values
from flatout.cli.explaining import explained
from flatout.cli.main import INTERRUPTED
from flatout.cli.prices import prices_of
from flatout.errors import UsageError

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.virtual.dry_run import DryRun
    from flatout.virtual.prediction import Prediction

DEFAULT_GPU = "a100"
ALL = "all"
_OWN_OPTIONS = (
    "--gpu", "--steps", "--timeout", "--json", "--output", "--assume", "--gpus-file", "--allow-writes", "--price",
    "--vary", "--workers", "--cpu-scale", "--trace",
)  # fmt: skip


def predict(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, as it is.")],
    arguments: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Argument(metavar="ARGUMENTS", help="Whatever follows is the script's own.", show_default=False),
    ] = None,
    gpu: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME[,NAME...]", help="GPUs to predict for, or all; flatout gpus lists them.", show_default=False
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
    price: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME=DOLLARS[,...]",
            help="Dollars an hour, or a TOML file of them: ranks by cost.",
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME=LOW..HIGH",
            help="Try an argument of the script's: batch-size=8..512, or =8,16,32.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="N", help="Time steps as if loaders had N workers.", show_default=False),
    ] = None,
    cpu_scale: Annotated[
        str, typer.Option("--cpu-scale", metavar="X", help="Time steps on a host that takes X times as long.")
    ] = "1",
    trace: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the first GPU's steps as a trace for Perfetto.", show_default=False),
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
    """Run a training script on a GPU that is not here: does it work, does it fit, how long is a step, what bounds it?

    The script is executed, up to --steps optimizer steps: this is no sandbox.
    Options of flatout come before the script; what follows it is the script's.
    """
    _refuse("--gpus", gpus)
    _refuse("--strategy", strategy)
    step_count = values.count(steps, "--steps")
    timeout_seconds = values.duration_seconds(timeout, "--timeout")
    assumed = values.assumptions(assume or [], "--assume")
    values.check_json(json)
    prices = {} if price is None else prices_of(price, "--price", gpus_file)
    varied = None if vary is None else values.varied(vary, "--vary")
    from flatout.gpu import all_gpus
    from flatout.timeline import Host
    from flatout.virtual.timing import Timing

    timing = Timing(
        Host(scale=values.factor(cpu_scale, "--cpu-scale")),
        None if workers is None else values.count(workers, "--workers", least=0),
    )
    from flatout.virtual.again import is_kept, predict_again

    kept = not module and is_kept(Path(script))
    # A recording that is asked about no GPU is asked about its own.
    chosen, note = ([], "") if kept and gpu is None else _choose(gpu, gpus_file)
    if prices and chosen and not any(one.label in prices for one in chosen):
        raise UsageError(f"--price has none for {chosen[0].label}; add it, or name a GPU that has a price with --gpu")
    if varied is not None and (len(chosen) > 1 or output is not None):
        raise UsageError("--vary tries one GPU, and keeps no recording; name one with --gpu, and leave --output out")
    if trace is not None and (gpu == ALL or varied is not None):
        raise UsageError("--trace is of one run; leave out --gpu all and --vary")
    if gpu == ALL and output is not None:
        raise UsageError("--output with --gpu all: keep the recording of one GPU; name it")
    # Only from here on is anything loaded that takes time.
    from flatout.launch import Target
    from flatout.virtual.dry_run import DryRun
    from flatout.virtual.prediction import priced

    if kept:
        if arguments:
            raise UsageError(f"{arguments[0]} stands behind {script}, which is a recording; options come before it")
        prediction = predict_again(Path(script), chosen, timing, gpus_file)
        prediction = explained(prediction, Path(script), timing, all_gpus(gpus_file), trace)
        _tell(priced(prediction, prices), json, verbose=verbose)
    words = tuple(arguments or ())
    dry_run = DryRun(
        target=Target(module=script, arguments=words) if module else Target(path=script, arguments=words),
        steps=step_count,
        timeout_seconds=timeout_seconds,
        assume=assumed,
        allow_writes=allow_writes,
        options={} if gpus_file is None else {"gpus_file": str(gpus_file.absolute())},
        timing=timing,
    )
    with tempfile.TemporaryDirectory(prefix="flatout-", ignore_cleanup_errors=True) as name:
        run = _Run(dry_run, chosen, Path(name), stdout_to_stderr=json == "-")
        if varied is not None:
            prediction = run.varied(*varied)
        elif gpu == ALL:
            prediction = run.many()
        else:
            prediction = run.each(output, trace, all_output=verbose)
    sys.stdout.flush()
    _tell(priced(prediction, prices), json, note, verbose=verbose)


@dataclass(frozen=True)
class _Run:
    """What to run, for which GPUs, and a directory for what is not kept."""

    dry_run: DryRun
    gpus: list[GPU]
    scratch: Path
    stdout_to_stderr: bool

    def each(self, output: Path | None, trace: Path | None, *, all_output: bool) -> Prediction:
        from flatout.cli.outputs import recording_paths
        from flatout.virtual.dry_run import Job, predict

        paths = recording_paths(output, [one.label for one in self.gpus], self.scratch)
        jobs = [Job(one, path, self.scratch) for one, path in zip(self.gpus, paths, strict=True)]
        found = predict(self.dry_run, jobs, stdout_to_stderr=self.stdout_to_stderr, all_output=all_output)
        return explained(found, paths[0], self.dry_run.timing, self.gpus, trace)

    def many(self) -> Prediction:
        from flatout.virtual.choosing import predict_many

        return predict_many(self.dry_run, self.gpus, self.scratch, stdout_to_stderr=self.stdout_to_stderr)

    def varied(self, argument: str, numbers: tuple[int, ...], by_doubling: bool) -> Prediction:
        from flatout.virtual.varying import Vary, doubled, predict_varied

        vary = Vary(argument, doubled(*numbers) if by_doubling else numbers, by_doubling)
        return predict_varied(self.dry_run, self.gpus[0], vary, self.scratch, stdout_to_stderr=self.stdout_to_stderr)


def _tell(prediction: Prediction, json: str | None, note: str = "", *, verbose: bool) -> NoReturn:
    from flatout.cli.consoles import report_console
    from flatout.report.terminal import print_prediction

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


def _choose(gpu: str | None, gpus_file: Path | None) -> tuple[list[GPU], str]:
    """The GPUs to predict for; and a remark when that was not said."""
    from flatout.gpu import all_gpus, find

    if gpu == ALL:
        return list(all_gpus(gpus_file)), ""
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
