"""Draw what a command prints on a terminal as SVG.

python docs/images/render.py OUT.svg COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100


def main() -> None:
    """Run the command as on a colour terminal of 100 columns; its command line and what it prints become SVG."""
    out, *command = sys.argv[1:]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PYTHONUTF8": "1"}
    ran = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    name = Path(command[0]).name
    console.print(Text(f"$ {' '.join([name, *command[1:]])}\n", style="bold"))
    console.print(Text.from_ansi(ran.stdout.rstrip()))
    Path(out).write_text(console.export_svg(title=f"{name} {command[1]}"), encoding="utf-8")


if __name__ == "__main__":
    main()
