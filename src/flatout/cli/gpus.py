"""`flatout gpus`: the GPUs that can be predicted for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def gpus(
    gpus_file: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Option(metavar="TOML", help="More GPUs, described in a file of yours.", show_default=False),
    ] = None,
) -> None:
    """List the GPUs that flatout knows. Their names are taken as people write them: h100, rtx 4090, a100-40gb."""
    import sys

    from flatout.cli.consoles import WIDEST_COLUMNS, report_console
    from flatout.gpu import all_gpus
    from flatout.report.gpu_table import print_gpus

    console = report_console(sys.stdout)
    if not console.is_terminal:
        # What another program reads must not be cut.
        console.width = WIDEST_COLUMNS
    print_gpus(all_gpus(gpus_file), console)
