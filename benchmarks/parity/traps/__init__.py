"""The traps of hand-written training, one a module: what a naive loop, Accelerate, Fabric and Loop do in each.

A module has:

    TITLE      the trap in a few words
    MEASURES   what the numbers of its row are
    RIGHT      the right answer, in the words of the cells
    RANKS      the processes that it takes (1 or 2)
    COLUMNS    column -> a function that runs the trap and gives a `Cell`, or a `Cell` where there is nothing to run

Every function is written as the library's own documentation tells. `accelerate` and `fabric` are the default settings,
`accelerate_best` and `fabric_best` what the documentation offers against this trap, where it does.
"""

from __future__ import annotations

from typing import NamedTuple

NAMES = (
    "last_window",
    "token_means",
    "frozen_weights",
    "clip_unscaled",
    "persistent_workers",
    "resume_order",
    "scheduler_steps",
    "evaluation_duplicates",
    "other_methods",
)
COLUMNS = ("naive", "accelerate", "accelerate_best", "fabric", "fabric_best", "loop")


class Cell(NamedTuple):
    """What one library did. `right`: None where it makes no claim, so that there is nothing to be right or wrong."""

    value: str
    right: bool | None
    note: str = ""


USERS = "the user's own code"
