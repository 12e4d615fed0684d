"""Where reports are written to: standard error, so that standard output stays the script's own."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

NARROWEST_COLUMNS = 40
WIDEST_COLUMNS = 200


def report_console(file: TextIO | None = None) -> Console:
    """A console on standard error, or on `file`: 40 to 200 columns, colour only on a terminal and without NO_COLOR."""
    console = Console(file=file or sys.stderr, highlight=False, markup=False, emoji=False)
    console.width = min(WIDEST_COLUMNS, max(NARROWEST_COLUMNS, console.width))
    return console
