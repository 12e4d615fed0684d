"""The time of a step: how long, how sure, what it goes to, and what the GPU could do at best."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from flatout.report.bars import Kind, bar, bar_width, cells_of, legend
from flatout.report.layout import print_labelled, print_line
from flatout.report.units import dollars_text, fine_duration_text, rate_text
from flatout.virtual.prediction import Result, Time

# Colours: softened from the palette of Okabe and Ito (2008), as those of the memory's parts.
BOUND_KINDS: dict[str, Kind] = {
    "compute": Kind("C", "computing", "#6aa9e0"),
    "memory": Kind("M", "moving memory", "#4db28a"),
    "launch": Kind("L", "launching", "#d8c455"),
    "host": Kind("H", "host's own work", "#e39a52"),
    "data": Kind("D", "waiting for data", "#c78fb9"),
    "transfer": Kind("T", "copies to and fro", "#cf6f62"),
    "communication": Kind("X", "between GPUs", "#86a9ba"),
}
_SHOWN_RATIO = 0.01
LEAST_UTILIZATION_RATIO = 0.005
"""An MFU below half a percent is not shown: it would be read as none."""


def print_step(result: Result, time: Time, console: Console) -> None:
    """One line of figures, the bar of what the step goes to, and its legend. What is under 1 % is left out of it."""
    print_labelled("Step", figures(time).append(cost_text(result)), console)
    parts = [(kind, time.bound_by.get(name, 0.0)) for name, kind in BOUND_KINDS.items()]
    shown = [(kind, seconds) for kind, seconds in parts if seconds >= _SHOWN_RATIO * time.step_seconds]
    cells = cells_of([seconds for _, seconds in shown], time.step_seconds, bar_width(console))
    console.print()
    print_line(bar([kind for kind, _ in shown], cells, console, rest=" "), console)
    console.print()
    for line in legend([(kind, fine_duration_text(seconds)) for kind, seconds in shown], console):
        print_line(line, console)
    if time.unknown_operators:
        names = ", ".join(sorted(time.unknown_operators, key=lambda name: -time.unknown_operators[name])[:4])
        more = len(time.unknown_operators) - 4
        text = f"costed by their bytes alone: {names.replace('aten::', '')}" + (f" and {more} more" if more > 0 else "")
        console.print()
        print_labelled("", Text(text, "dim"), console)


def figures(time: Time) -> Text:
    """`18.3 ms (15.4 ms to 21.8 ms), 3,500 samples/s, MFU 38 %; this GPU's limit is 9.73 ms`."""
    text = Text().append(fine_duration_text(time.step_seconds), "bold")
    low, high = fine_duration_text(time.low_seconds), fine_duration_text(time.high_seconds)
    text.append(f" ({low} to {high})")
    if time.samples_per_second is not None:
        text.append(f", {rate_text(time.samples_per_second)} samples/s")
    if time.flops_utilization_ratio is not None and time.flops_utilization_ratio >= LEAST_UTILIZATION_RATIO:
        text.append(f", MFU {time.flops_utilization_ratio:.0%}".replace("%", " %"))
    return text.append(f"; this GPU's limit is {fine_duration_text(time.lower_bound_seconds)}")


def cost_text(result: Result) -> str:
    """`; $0.36 per million samples`, or steps where samples are not counted; nothing without a price."""
    if result.dollars_per_million_samples is not None:
        return f"; {dollars_text(result.dollars_per_million_samples)} per million samples"
    if result.dollars_per_million_steps is not None:
        return f"; {dollars_text(result.dollars_per_million_steps)} per million steps"
    return ""
