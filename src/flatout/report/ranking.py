"""Many GPUs in one table, the best first: what fits and how fast, then what does not."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from flatout.report.layout import INDENT, print_columns, print_hanging
from flatout.report.sources import plain
from flatout.report.step_bar import BOUND_KINDS, LEAST_UTILIZATION_RATIO
from flatout.report.units import dollars_text, fine_duration_text, rate_text, size_text
from flatout.report.verdict import verdict_of
from flatout.virtual.prediction import Result

_MOST_NAMED = 4
_Column = tuple[str, bool, Callable[[Result], Text]]


def print_ranking(results: tuple[Result, ...], console: Console) -> None:
    """Those with a price first, by cost; then by the time of a step. Columns that nobody has are left out."""
    ranked = ranking(results)
    columns = [column for column in _COLUMNS if any(column[2](result).plain for result in ranked)]
    while len(columns) > 3 and _width(columns, ranked) > console.width:
        columns.remove(min(columns[2:], key=lambda column: _WORTH.index(column[0])))
    head = [Text(title, "dim") for title, _, _ in columns]
    rows = [[cell(result) for _, _, cell in columns] for result in ranked]
    print_columns([head, *rows], {number for number, (_, right, _) in enumerate(columns) if right}, console)
    if any(result.judged_from for result in ranked):
        console.print()
        print_hanging(Text(INDENT), Text(_runs_text(ranked), "dim"), console)


def _runs_text(results: list[Result]) -> str:
    """How often the script ran, and where: the other GPUs are judged by these runs."""
    ran_on = sorted({result.judged_from or result.label for result in results})
    if len(ran_on) == 1:
        return f"The script ran once, on the {ran_on[0]}: it takes the same path on all of these."
    shown = [f"the {label}" for label in (ran_on if len(ran_on) <= _MOST_NAMED else ran_on[: _MOST_NAMED - 1])]
    last = shown.pop() if len(ran_on) <= _MOST_NAMED else f"{len(ran_on) - len(shown)} more"
    return f"The script ran {len(ran_on)} times, once for each path that it takes: on {', '.join(shown)} and {last}."


def ranking(results: tuple[Result, ...]) -> list[Result]:
    """The best first: what has a time before what has none, those that fit before those that do not."""
    return sorted(results, key=_key)


def _key(result: Result) -> tuple[int, float, float]:
    if result.time is None or result.outcome not in ("fits", "may_not_fit"):
        memory = result.memory
        return 2 + (result.outcome == "error"), -(memory.usable_bytes if memory else 0), 0.0
    # Of GPUs that run the same steps the cheaper step is the cheaper sample.
    cost = result.dollars_per_million_steps
    return int(cost is None), cost or 0.0, result.time.step_seconds


def _width(columns: list[_Column], results: list[Result]) -> int:
    return sum(2 + max(len(title), *(cell(r).cell_len for r in results)) for title, _, cell in columns)


def _name(result: Result) -> Text:
    return Text(result.label, "bold" if result.time is not None else "dim")


def _word(result: Result) -> Text:
    verdict = verdict_of(result)
    return Text(plain(verdict.word), verdict.style)


def _needs(result: Result) -> Text:
    memory = result.unlimited or result.memory
    if memory is None or not result.used_gpu or result.outcome == "error":
        return Text("")
    return Text(f"{size_text(memory.needed_bytes)} of {size_text(memory.usable_bytes)}")


def _step(result: Result) -> Text:
    return Text("" if result.time is None else fine_duration_text(result.time.step_seconds), "bold")


def _range(result: Result) -> Text:
    time = result.time
    if time is None:
        return Text("")
    return Text(f"{fine_duration_text(time.low_seconds)} to {fine_duration_text(time.high_seconds)}")


def _rate(result: Result) -> Text:
    rate = None if result.time is None else result.time.samples_per_second
    return Text("" if rate is None else rate_text(rate))


def _utilization(result: Result) -> Text:
    ratio = None if result.time is None else result.time.flops_utilization_ratio
    return Text("" if ratio is None or ratio < LEAST_UTILIZATION_RATIO else f"{ratio:.0%}".replace("%", " %"))


def _cost(result: Result) -> Text:
    cost = result.dollars_per_million_samples
    return Text("" if cost is None else dollars_text(cost))


def _cost_of_steps(result: Result) -> Text:
    """In place of the cost of samples, where nobody counts them."""
    cost = result.dollars_per_million_steps if result.dollars_per_million_samples is None else None
    return Text("" if cost is None else dollars_text(cost))


def _bound(result: Result) -> Text:
    if result.time is None or not result.time.bound_by:
        return Text("")
    most = max(result.time.bound_by.items(), key=lambda item: item[1])
    return Text(f"{BOUND_KINDS[most[0]].word} {most[1] / result.time.step_seconds:.0%}".replace("%", " %"))


_COLUMNS: tuple[_Column, ...] = (
    ("GPU", False, _name),
    ("", False, _word),
    ("step", True, _step),
    ("samples/s", True, _rate),
    ("$ per million samples", True, _cost),
    ("$ per million steps", True, _cost_of_steps),
    ("low to high", True, _range),
    ("needs", True, _needs),
    ("MFU", True, _utilization),
    ("most of a step", False, _bound),
)
_WORTH = (
    "MFU",
    "most of a step",
    "low to high",
    "needs",
    "samples/s",
    "$ per million steps",
    "$ per million samples",
    "step",
)
"""What is left out first on a narrow console."""
