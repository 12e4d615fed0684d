"""The table of known GPUs, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from flatout.gpu import GPU
from flatout.report.layout import print_columns
from flatout.report.units import size_text

_HEADINGS = ("GPU", "usable", "capability", "name, as the driver has it")


def print_gpus(gpus: Sequence[GPU], console: Console) -> None:
    """One line a GPU: its label, the memory that CUDA reports, its compute capability, and its name."""
    rows = [[Text(heading, "dim") for heading in _HEADINGS]]
    for gpu in gpus:
        major, minor = gpu.compute_capability
        rows.append(
            [
                Text(gpu.label, "bold"),
                Text(size_text(gpu.usable_bytes)),
                Text(f"{major}.{minor}"),
                Text(gpu.name),
            ]
        )
    print_columns(rows, {1, 2}, console)
