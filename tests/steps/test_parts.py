"""What the stretches of a step were, by what follows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.steps.parts import Ledger, sums


def _told(*events: str) -> dict[str, float]:
    """A second passes before each event; `step` ends the step. "data:a" is a batch of loader a."""
    ledger = Ledger(0.0)
    for now, event in enumerate(events, start=1):
        name, _, source = event.partition(":")
        if name == "end":
            ledger.end(now)
        elif name == "eval":
            ledger.evaluation_begins(now)
        elif name == "train":
            ledger.evaluation_ends(now)
        else:
            ledger.begin(name, now, source)  # type: ignore[arg-type]
    began, seconds, stretches = ledger.step_ends(len(events))
    assert (began, seconds) == (0.0, len(events))
    parts = sums(stretches)
    assert sum(parts.values()) == pytest.approx(seconds)
    return {part: seconds for part, seconds in parts.items() if seconds}


STEP = ("data:a", "end", "backward", "end", "optimizer", "end")


def test_work_that_leads_to_a_backward_pass_was_a_forward_pass() -> None:
    assert _told(*STEP) == {"other": 2, "data": 1, "forward": 1, "backward": 1, "optimizer": 1}


def test_batches_without_a_backward_pass_were_an_evaluation() -> None:
    told = _told("data:v", "end", "data:v", "end", "data:v", "end", *STEP)
    assert told["evaluation"] == 4  # the last batch of v led to nothing that tells what it was
    assert told["backward"] == told["optimizer"] == 1


def test_a_model_that_is_put_back_to_training_was_evaluated() -> None:
    assert _told("eval", "train", *STEP)["evaluation"] == 1


def test_a_part_of_a_model_that_stays_in_evaluation_mode_is_no_evaluation() -> None:
    assert "evaluation" not in _told("data:a", "end", "eval", "backward", "end", "optimizer", "end")


def test_two_loaders_side_by_side_are_no_evaluation() -> None:
    assert "evaluation" not in _told("data:a", "end", "data:b", "end", "backward", "end", "optimizer", "end")


def test_batches_that_are_accumulated_are_no_evaluation() -> None:
    twice = ("data:a", "end", "backward", "end")
    assert "evaluation" not in _told(*twice, *twice, "optimizer", "end")


def test_a_backward_pass_inside_an_optimizer_is_one() -> None:
    assert _told("optimizer", "backward", "end", "end") == {"other": 1, "optimizer": 2, "backward": 1}


def test_a_checkpoint_is_no_part_of_the_forward_pass() -> None:
    assert _told("checkpoint", "end", *STEP)["checkpoint"] == 1


@given(st.lists(st.sampled_from(["data:a", "data:b", "backward", "optimizer", "checkpoint", "end", "eval", "train"])))
def test_parts_add_up_whatever_is_told(events: list[str]) -> None:
    _told(*events)
