"""The report of a run: the first line is the answer, and silence is said in words."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from flatout.explain.explanation import SCHEMA, Explanation, StepTime
from flatout.findings import Finding, Remedy, Saving
from flatout.report.explanation import print_explanation

TIME = StepTime(50, 0.010, 0.009, 0.011, {"forward": 0.004, "backward": 0.006}, {"checkpoint": 0.5})
GROWS = Finding(
    code="FO514", name="memory-grows", severity="medium", message="`kept` holds more", file="", line=0, column=1,
    end_line=0, end_column=1, saving=Saving(bytes=1 << 20), remedy=Remedy(text="clear it"),
)  # fmt: skip


def report(time: StepTime | None = TIME, findings: tuple[Finding, ...] = (), outcome: str | None = "completed") -> str:
    file = io.StringIO()
    explanation = Explanation(SCHEMA, "train.py", 53 if time else 2, outcome, time, 320.0 if time else None, findings)
    print_explanation(explanation, Console(file=file, width=200, highlight=False))
    return file.getvalue()


def test_the_first_line_is_the_answer() -> None:
    first = report().strip().splitlines()[0]
    assert first == "train.py: a step takes 10.0 ms (9.00 ms to 11.0 ms), 320 samples/s, over 50 steps"


def test_where_nothing_is_wrong_it_says_so_and_stops() -> None:
    text = report()
    assert text.rstrip().endswith("Nothing to mend was found.")
    assert "What to mend" not in text


def test_a_finding_that_costs_memory_says_how_much() -> None:
    text = report(findings=(GROWS,))
    assert "FO514" in text
    assert "1.00 MiB more memory with every step" in text
    assert "Nothing to mend" not in text


@pytest.mark.parametrize(
    ("outcome", "words"), [(None, "has not ended"), ("killed", "was killed"), ("error", "an error")]
)
def test_how_it_ended_is_told_where_it_was_not_well(outcome: str | None, words: str) -> None:
    assert words in report(outcome=outcome)


def test_a_run_without_a_step_to_time_has_no_bar() -> None:
    text = report(time=None)
    assert "2 training steps seen, none that could be timed" in text
    assert "Nothing to mend" not in text
