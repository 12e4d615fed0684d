"""A run for the terminal: its step, what it went to, what would make it shorter; short where nothing would."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.explain.explanation import Explanation, StepTime
from flatout.report.bars import Kind, bar, bar_width, cells_of, legend
from flatout.report.findings import print_titled
from flatout.report.layout import INDENT, print_hanging, print_labelled, print_line
from flatout.report.sources import short_path
from flatout.report.units import count_text, fine_duration_text, rate_text

# Colours: softened from the palette of Okabe and Ito (2008), as those of the other bars.
PART_KINDS: dict[str, Kind] = {
    "data": Kind("D", "waiting for data", "#c78fb9"),
    "transfer": Kind("T", "copies", "#cf6f62"),
    "forward": Kind("F", "forward", "#6aa9e0"),
    "backward": Kind("B", "backward", "#4db28a"),
    "optimizer": Kind("O", "optimizer", "#d8c455"),
    "other": Kind("X", "the loop's own work", "#e39a52"),
}
_BESIDE_WORDS = {"evaluation": "evaluation", "checkpoint": "checkpoints", "compile": "compilation"}
_ENDINGS = {
    None: "it has not ended, or was killed",
    "killed": "it was killed",
    "interrupted": "it was interrupted",
    "error": "it ended by an error",
    "out_of_memory": "it ran out of memory",
    "timeout": "its time was up",
}


def print_explanation(explanation: Explanation, console: Console, verbose: bool = False) -> None:
    """The verdict line, the step as one bar, the findings."""
    console.print()
    print_hanging(Text(INDENT), verdict(explanation), console)
    time = explanation.step_seconds
    if time is None:
        return
    console.print()
    _print_bar(time, console)
    if time.beside:
        words = [f"{_BESIDE_WORDS[part]} {fine_duration_text(seconds)}" for part, seconds in time.beside.items()]
        console.print()
        print_labelled("beside", Text(f"{', '.join(words)} in all, in none of the steps above", "dim"), console)
    console.print()
    if not explanation.findings:
        print_line(Text(INDENT).append("Nothing to mend was found.", "bold"), console)
    else:
        title = (
            Text(INDENT).append("What to mend", "bold").append(", each alone, as timed, tried or replayed here", "dim")
        )
        print_titled(explanation.findings, title, console, verbose)


def verdict(explanation: Explanation) -> Text:
    """`train.py: a step takes 11.9 ms (11.8 ms to 12.0 ms), 1,340 samples/s, over 114 steps`."""
    text = Text(short_path(explanation.script)).append(": ")
    time = explanation.step_seconds
    if time is None:
        seen = count_text(explanation.steps, "training step")
        text.append(f"{seen if explanation.steps else 'no training step'} seen, none that could be timed", "bold")
    else:
        text.append(f"a step takes {fine_duration_text(time.median_seconds)}", "bold")
        text.append(f" ({fine_duration_text(time.low_seconds)} to {fine_duration_text(time.high_seconds)})")
        if explanation.samples_per_second is not None:
            text.append(f", {rate_text(explanation.samples_per_second)} samples/s")
        text.append(f", over {count_text(time.steps, 'step')}")
    ended = _ENDINGS.get(explanation.outcome, "")
    return text.append(f"; {ended}" if ended else "")


def _print_bar(time: StepTime, console: Console) -> None:
    whole = sum(time.parts.values())
    shown = [(PART_KINDS[part], seconds) for part, seconds in time.parts.items() if seconds >= 0.01 * whole]
    cells = cells_of([seconds for _, seconds in shown], whole, bar_width(console))
    print_line(bar([kind for kind, _ in shown], cells, console, rest=" "), console)
    console.print()
    for line in legend([(kind, fine_duration_text(seconds)) for kind, seconds in shown], console):
        print_line(line, console)
