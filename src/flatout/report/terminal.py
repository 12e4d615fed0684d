"""A prediction as people show it to each other: a verdict a GPU, what fills it, where it peaks, what was assumed."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.report.comparison import print_comparison
from flatout.report.details import print_details
from flatout.report.layout import print_hanging, print_labelled, print_source
from flatout.report.memory_bar import print_memory
from flatout.report.sources import place_text, plain, source_line
from flatout.report.units import count_text, size_text
from flatout.report.verdict import verdict_of
from flatout.virtual.prediction import PredictedError, Prediction, Result

_FEW_ASSUMPTIONS = 3
_FEW_LINES = 8


def print_prediction(prediction: Prediction, console: Console, *, verbose: bool = False) -> None:
    """Write the report of a prediction to `console`, as wide as that is (40 columns are enough).

    Letters and words carry the meaning, colour repeats it. With `verbose`: also the lines that hold the most, the
    waits, the steps and the facts.
    """
    console.print()
    _print_header(prediction, console)
    if len(prediction.results) > 1:
        console.print()
        print_comparison(prediction, console)
    told: list[Result] = []
    for result in prediction.results:
        console.print()
        twin = None if verbose else _twin(result, told)
        told.append(result)
        _print_verdict(result, console)
        if twin is not None:
            print_labelled("Memory", Text(f"the same as on {twin.label}"), console)
        else:
            _print_result(result, console, verbose=verbose)
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
    command = " ".join((place_text(prediction.script, None), *map(plain, prediction.arguments)))
    steps = max(len(result.per_step) for result in prediction.results)
    ran = count_text(steps, "step") if steps else "no optimizer step"
    if steps and any(result.stopped for result in prediction.results):
        ran = f"the first {ran}" if steps > 1 else "the first step"
    dot = "-" if console.options.ascii_only else "·"
    line = Text(command, "bold").append(f"  {ran} {dot} PyTorch {prediction.torch}", "not bold dim")
    print_hanging(Text(""), line, console)


def _print_verdict(result: Result, console: Console) -> None:
    verdict = verdict_of(result)
    sign = "" if console.options.ascii_only else f"{verdict.sign} "
    line = Text(sign, f"bold {verdict.style}").append(result.label, "bold")
    line.append("  ").append(verdict.word, f"bold {verdict.style}").append("  ")
    print_hanging(line, Text(plain(verdict.detail)), console)


def _print_result(result: Result, console: Console, *, verbose: bool) -> None:
    memory = result.unlimited or result.memory
    # Where a script breaks, the answer is the error; its memory until then is a detail.
    if memory is not None and result.used_gpu and (verbose or result.outcome != "error"):
        console.print()
        print_memory(memory, console)
        at = memory.peak_at
        if at is not None:
            console.print()
            text = Text(size_text(memory.needed_bytes)).append("" if at.file is None else " at ")
            text.append("" if at.file is None else place_text(at.file, at.line), "bold")
            print_labelled("Peak", text.append(f", step {at.step}, {at.phase}"), console)
            _print_quotation(at.file, at.line, console)
    if result.error is not None:
        console.print()
        _print_error(result, result.error, console, verbose=verbose)
    if result.outcome == "fits" and not (result.used_gpu and result.steps):
        _print_note(result, console)
    caught = result.facts.get("out_of_memory_caught", 0)
    if caught:
        note = f"memory ran out {count_text(caught, 'time')} on the way, and the script caught that and went on"
        print_labelled("Note", Text(note), console)
    if verbose:
        print_details(result, console)


def _print_note(result: Result, console: Console) -> None:
    """What a verdict without training is worth."""
    if result.used_gpu:
        note = "no optimizer step was seen: this is the memory of what ran, not of training"
    else:
        note = 'if it should: does it choose its device by an option, or is a .to("cuda") missing?'
    print_labelled("Note", Text(note), console)


def _print_quotation(file: str | None, line: int | None, console: Console) -> None:
    source = None if file is None else source_line(file, line)
    if source is not None:
        print_source(source, console)


def _print_error(result: Result, error: PredictedError, console: Console, *, verbose: bool) -> None:
    label = "Fails"
    if error.file is not None:
        print_labelled(label, Text(f"at {place_text(error.file, error.line)}", "bold"), console)
        _print_quotation(error.file, error.line, console)
        label = ""
    message = plain(error.message).strip()
    if result.outcome == "out_of_memory" and not verbose:
        message = _first_sentences(message)
    lines = message.splitlines() or [""]
    notes = [line for note in error.notes for line in plain(note).splitlines()]
    shown, noted = (lines, notes) if verbose else (lines[:_FEW_LINES], notes[:_FEW_LINES])
    print_labelled(label, Text(f"{plain(error.type)}: ", "bold").append("\n".join(shown), "not bold"), console)
    for line in noted:
        print_labelled("", Text(line), console)
    more = len(lines) - len(shown) + len(notes) - len(noted)
    if more:
        print_labelled("", Text(f"{count_text(more, 'more line')} with -v", "dim"), console)


def _first_sentences(message: str) -> str:
    """Of PyTorch's long advice after "out of memory", what it says about this case: the first two sentences."""
    sentences = message.split(". ")
    return message if len(sentences) <= 2 else ". ".join(sentences[:2]) + "."


def _print_assumptions(assumptions: tuple[str, ...], console: Console, *, verbose: bool) -> None:
    shown = assumptions if verbose else assumptions[:_FEW_ASSUMPTIONS]
    for index, text in enumerate(shown):
        print_labelled("Assumed" if index == 0 else "", Text(plain(text)), console)
    if len(shown) < len(assumptions):
        print_labelled("", Text(f"{len(assumptions) - len(shown)} more with -v", "dim"), console)
