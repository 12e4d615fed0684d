"""The traps of training loops, side by side: a naive plain loop, Accelerate, Lightning Fabric, Loop. All measured.

    python benchmarks/parity/traps.py [--only NAME] [--columns naive,loop] [--json OUT] [--page docs/loop-parity.md]

Each cell runs in processes of its own, so that no library's global state reaches the next. What a cell does is in
`traps/NAME.py`. `make parity` runs all with the newest Accelerate and Lightning and writes both files.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from pages import write_between

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- parity: begin -->", "<!-- parity: end -->"
TIMEOUT_SECONDS = 240
TITLES = {
    "naive": "plain loop, naive",
    "accelerate": "Accelerate, default",
    "accelerate_best": "Accelerate, best documented",
    "fabric": "Fabric, default",
    "fabric_best": "Fabric, best documented",
    "loop": "flatout.Loop",
}
MARK = "cell:"


def trap(name: str) -> ModuleType:
    """The module of a trap."""
    return importlib.import_module(f"traps.{name}")


def run_here(name: str, column: str) -> Any:
    """The cell, run in this process."""
    cell = trap(name).COLUMNS[column]
    return cell() if callable(cell) else cell


def run_apart(name: str, column: str) -> dict[str, Any]:
    """The cell, run in as many new processes as the trap takes, as torchrun starts them."""
    ranks = trap(name).RANKS
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(ranks):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        if ranks > 1:
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0}
            elastic = {"TORCHELASTIC_RUN_ID": "parity", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            environment.update({key: str(value) for key, value in {**place, **elastic}.items()})
        command = [sys.executable, "-W", "ignore", __file__, "--cell", name, column]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            raise SystemExit(f"{name}, {column}: ended with {process.returncode}\n{errors[-3000:]}")
    line = next(line for line in outputs[0][0].splitlines() if line.startswith(MARK))
    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return found


def measure(names: list[str], columns: list[str]) -> dict[str, Any]:
    """All cells. Schema flatout.parity/1."""
    rows = []
    for name in names:
        module = trap(name)
        cells = {column: run_apart(name, column) for column in columns if column in module.COLUMNS}
        rows.append(
            {
                "name": name,
                "title": module.TITLE,
                "measures": module.MEASURES,
                "right": module.RIGHT,
                "ranks": module.RANKS,
                "cells": cells,
            }
        )
        said = ", ".join(f"{column} {cell['value']}{mark(cell)}" for column, cell in cells.items())
        print(f"{module.TITLE} (right: {module.RIGHT}): {said}", flush=True)
    versions = {name: importlib.metadata.version(name) for name in ("torch", "accelerate", "lightning") if _has(name)}
    return {
        "schema": "flatout.parity/1",
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "versions": versions,
        "rows": rows,
    }


def _has(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def mark(cell: dict[str, Any]) -> str:
    """The verdict, for the terminal."""
    return {True: "", False: " WRONG", None: ""}[cell["right"]]


def table(found: dict[str, Any]) -> str:
    """The result as Markdown."""
    versions = found["versions"]
    packages = ", ".join(
        f"{title} {versions[name]}"
        for name, title in (("torch", "PyTorch"), ("accelerate", "Accelerate"), ("lightning", "Lightning (Fabric)"))
        if name in versions
    )
    head = ["trap", "right", *(TITLES[column] for column in TITLES)]
    lines = [
        f"Measured on {found['date']}, Python {found['python']}: {packages}.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for row in found["rows"]:
        cells = [_shown(row["cells"].get(column)) for column in TITLES]
        title = f"[{row['title']}](../benchmarks/parity/traps/{row['name']}.py): {row['measures']}"
        lines.append("| " + " | ".join([title, row["right"], *cells]) + " |")
    return "\n".join(lines)


def _shown(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "as default"
    verdict = {True: f"{cell['value']} ✓", False: f"**{cell['value']}** ✗", None: cell["value"]}[cell["right"]]
    return f"{verdict} ({cell['note']})" if cell["note"] else verdict


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="the traps of training loops, side by side")
    parser.add_argument("--only", action="append", help="one trap; may be given more than once")
    parser.add_argument("--columns", default=",".join(TITLES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        warnings.simplefilter("ignore")
        # Before a process group is made: else its default arguments keep the group for good, and one process in 20
        # aborts at its end, whatever the library.
        importlib.import_module("torch.distributed.nn.functional")
        print(MARK + json.dumps(run_here(*arguments.cell)._asdict()), flush=True)
        return
    found = measure(arguments.only or list(importlib.import_module("traps").NAMES), arguments.columns.split(","))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if arguments.page:
        write_between(arguments.page, BEGIN, END, table(found))
    if wrong := [row["title"] for row in found["rows"] if row["cells"].get("loop", {}).get("right") is False]:
        raise SystemExit(f"Loop is wrong in: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
