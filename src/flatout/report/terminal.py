"""A prediction as people show it to each other: a verdict a GPU, what fills it, where it peaks, what was assumed."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.text import Text

from flatout.report.comparison import print_comparison
from flatout.report.details import print_details
from flatout.report.ends import print_error
from flatout.report.findings import print_findings
from flatout.report.layout import INDENT, print_hanging, print_labelled, print_line, print_quotation
from flatout.report.memory_bar import print_memory
from flatout.report.ranking import print_ranking
from flatout.report.sources import place_text, plain, short_path, short_paths
from flatout.report.step_bar import print_step
from flatout.report.tried import print_tried
from flatout.report.units import count_text, fine_duration_text, size_text
from flatout.report.verdict import verdict_of
from flatout.virtual.prediction import Prediction, Result

FEW_GPUS = 6
"""More than that are a table, with the details left to ``-v``."""

_FEW_ASSUMPTIONS = 3
_HOW_SURE = "simulated; how sure they are, and where weak: docs/costs.md"


def print_prediction(prediction: Prediction, console: Console, *, verbose: bool = False) -> None:
    """Write the report of a prediction to `console`, as wide as that is (40 columns are enough).

    Letters and words carry the meaning, colour repeats it. With `verbose`: also the lines that hold the most, the
    waits, the steps and the facts.
    """
    console.print()
    _print_header(prediction, console)
    is_priced = any(result.dollars_per_million_steps is not None for result in prediction.results)
    if len(prediction.results) > FEW_GPUS or (is_priced and len(prediction.results) > 1):
        console.print()
        print_ranking(prediction.results, console)
    elif len(prediction.results) > 1:
        console.print()
        print_comparison(prediction, console)
    for result in prediction.results:
        tried = result.largest_batch
        # Where the script refuses the argument, what it said is the answer.
        if tried is not None and any(one.outcome != "error" for one in tried.tried):
            console.print()
            print_tried(tried, console)
    told: list[Result] = []
    for result in prediction.results if verbose or len(prediction.results) <= FEW_GPUS else ():
        console.print()
        twin = None if verbose else _twin(result, told)
        told.append(result)
        _print_verdict(result, console)
        if twin is not None:
            print_labelled("Memory", Text(f"the same as on {twin.label}"), console)
            if result.time is not None:
                print_step(result, result.time, console)
        else:
            _print_result(result, console, verbose=verbose)
    if prediction.findings:
        console.print()
        print_findings(prediction.findings, prediction.results[0].label, console, verbose=verbose)
    if any(result.time is not None for result in prediction.results):
        console.print()
        print_labelled("Times", Text(_HOW_SURE), console)
    if prediction.assumptions:
        console.print()
        _print_assumptions(prediction.assumptions, console, verbose=verbose)


def _twin(result: Result, told: list[Result]) -> Result | None:
    """An earlier GPU whose run was the same in every byte: its picture need not be drawn again."""
    if result.memory is None or result.error is not None or not result.used_gpu:
        return None
    mine = result.memory
    for other in told:
        theirs = other.memory
        if theirs is None or other.error is not None:
            continue
        if (mine.by_category, mine.peak_at, mine.needed_bytes) == (
            theirs.by_category,
            theirs.peak_at,
            theirs.needed_bytes,
        ):
            return other
    return None


def _print_header(prediction: Prediction, console: Console) -> None:
    dot = "-" if console.options.ascii_only else "·"
    line = Text(command_text(prediction.script, prediction.arguments), "bold")
    line.append(f"  {_steps_text(prediction.results)} {dot} PyTorch {prediction.torch}", "not bold dim")
    print_hanging(Text(""), line, console)


def command_text(script: str, arguments: tuple[str, ...]) -> str:
    """What was run, as a shell would take it: `train.py --name 'two words'`, `-m package.train`."""
    dash, _, module = script.partition(" ")
    first = f"-m {shlex.quote(module)}" if dash == "-m" else _quoted(short_path(script))
    return plain(" ".join((first, *map(shlex.quote, arguments)))).replace("\n", "\\n")


def _quoted(path: str) -> str:
    """A path quoted for a shell, whose `~` must stay outside of the quotes."""
    return "~" + shlex.quote(path[1:]) if path.startswith("~") else shlex.quote(path)


def _steps_text(results: tuple[Result, ...]) -> str:
    """How far the runs went; where a run had no room, how far it came until then."""
    fewest, most = (limit(result.steps for result in results) for limit in (min, max))
    if most == 0:
        return "no optimizer step"
    if fewest < most:
        return f"up to {count_text(most, 'step')}"
    if not any(result.stopped for result in results):
        return count_text(most, "step")
    return f"the first {count_text(most, 'step')}" if most > 1 else "the first step"


def _print_verdict(result: Result, console: Console) -> None:
    verdict = verdict_of(result)
    sign = "" if console.options.ascii_only else f"{verdict.sign} "
    line = Text(sign, f"bold {verdict.style}").append(result.label, "bold")
    line.append("  ").append(verdict.word, f"bold {verdict.style}").append("  ")
    body = Text(plain(verdict.detail))
    if result.time is not None:
        body.append(f", {fine_duration_text(result.time.step_seconds)} a step")
    if verdict.note:
        body.append(f" ({verdict.note})", "yellow")
    print_hanging(line, body, console)


def _print_result(result: Result, console: Console, *, verbose: bool) -> None:
    memory = result.unlimited or result.memory
    # Where a script breaks, the answer is the error; its memory until then is a detail.
    if memory is not None and result.used_gpu and (verbose or result.outcome != "error"):
        console.print()
        if result.unlimited is not None:
            _print_second_run(result, console)
        print_memory(memory, console)
        at = memory.peak_at
        if at is not None:
            console.print()
            text = Text(size_text(memory.needed_bytes)).append("" if at.file is None else " at ")
            text.append("" if at.file is None else place_text(at.file, at.line), "bold")
            print_labelled("Peak", text.append(f", step {at.step}, {at.phase}"), console)
            print_quotation(at.file, at.line, console)
    if result.time is not None:
        console.print()
        print_step(result, result.time, console)
    if result.error is not None:
        console.print()
        print_error(result, result.error, console, verbose=verbose)
    if result.outcome == "fits" and not (result.used_gpu and result.steps):
        _print_note(result, console)
    if verbose:
        print_details(result, console)


def _print_second_run(result: Result, console: Console) -> None:
    """Which run the picture is of: the one that stopped where there was no more room knows only a part."""
    steps = len(result.per_step)
    ran = "" if not steps else f", over {count_text(steps, 'step')}" if steps > 1 else ", in one step"
    print_line(Text(INDENT).append(f"What it takes without a limit{ran}:", "dim"), console)


def _print_note(result: Result, console: Console) -> None:
    """What a verdict without training is worth."""
    if result.used_gpu:
        note = "no optimizer step was seen: this is the memory of what ran, not of training"
    else:
        note = 'if it should: does it choose its device by an option, or is a .to("cuda") missing?'
    print_labelled("Note", Text(note), console)


def _print_assumptions(assumptions: tuple[str, ...], console: Console, *, verbose: bool) -> None:
    shown = assumptions if verbose else assumptions[:_FEW_ASSUMPTIONS]
    for index, text in enumerate(shown):
        print_labelled("Assumed" if index == 0 else "", Text(short_paths(text)), console)
    if len(shown) < len(assumptions):
        print_labelled("", Text(f"{len(assumptions) - len(shown)} more with -v", "dim"), console)
