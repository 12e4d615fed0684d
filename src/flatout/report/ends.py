"""Why a run ended early, for the terminal: where, with which words, and what to do about it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.report.layout import print_labelled, print_quotation
from flatout.report.sources import place_text, plain
from flatout.report.units import count_text
from flatout.virtual.prediction import PredictedError, Result

_FEW_LINES = 8
# Exit code of a wrong command line, by argparse and by most others.
_USAGE = 2


def print_error(result: Result, error: PredictedError, console: Console, *, verbose: bool) -> None:
    """The place and words of `error`, then a note where there is something to do."""
    label = "Stopped" if result.says_nothing or error.cause == "script" else "Fails"
    when = _when(error.doing)
    if error.file is not None:
        place = Text("at ").append(place_text(error.file, error.line), "bold")
        print_labelled(label, place.append(f", {when}" if when else ""), console)
        print_quotation(error.file, error.line, console)
        label = ""
    message = _message(result, error, verbose=verbose)
    if message is not None:
        _print_message(label, message, error.notes, console, verbose=verbose)
    note = _note(result, error)
    if note and not (message is not None and error.cause == "script"):
        print_labelled("Note", Text(note), console)


def _message(result: Result, error: PredictedError, *, verbose: bool) -> Text | None:
    """The words of the end; None where the verdict's own line said as much."""
    if error.cause in ("script", "timeout", "interrupted"):
        said = error.type == "SystemExit" and ": " in error.message
        return Text(plain(error.message)) if said else None
    message = plain(error.message).strip()
    if error.cause in ("refused", "flatout"):
        return Text(message)
    if result.outcome == "out_of_memory" and not verbose:
        message = _first_sentences(message)
    return Text(f"{plain(error.type)}: ", "bold").append(message, "not bold")


def _print_message(label: str, message: Text, notes: tuple[str, ...], console: Console, *, verbose: bool) -> None:
    lines = message.split("\n", allow_blank=True)
    added = [line for note in notes for line in plain(note).splitlines()]
    shown, noted = (lines, added) if verbose else (lines[:_FEW_LINES], added[:_FEW_LINES])
    print_labelled(label, Text("\n").join(shown), console)
    for line in noted:
        print_labelled("", Text(line), console)
    more = len(lines) - len(shown) + len(added) - len(noted)
    if more:
        print_labelled("", Text(f"{count_text(more, 'more line')} with -v", "dim"), console)


def _note(result: Result, error: PredictedError) -> str:
    if error.cause == "timeout":
        return "--timeout gives it more time; --steps asks for fewer steps"
    if error.cause != "script":
        return ""
    if error.type == "EOFError":
        return "give the input on standard input, and predict for one GPU at a time: only the first run has it"
    if error.type != "SystemExit":
        return ""
    if result.exit_code == _USAGE and result.ended_itself:
        return "what it said stands above; exit code 2 usually means that its own arguments are wrong"
    return "what it said, if anything, stands above"


def _when(doing: str) -> str:
    """`step 2, forward`, as a peak has it, from a recording's `forward, step 2`."""
    phase, _, step = doing.partition(", ")
    return f"{step}, {phase}" if step.startswith("step ") else plain(doing)


def _first_sentences(message: str) -> str:
    """Of PyTorch's long advice after "out of memory", what it says about this case: the first two sentences."""
    sentences = message.split(". ")
    return message if len(sentences) <= 2 else ". ".join(sentences[:2]) + "."
