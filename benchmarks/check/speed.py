"""How long `flatout check` takes on torchtitan's 120,000 lines, beside TorchFix on the same files in the same run.

    python benchmarks/check/speed.py --torchfix PATH/TO/torchfix [--folder FOLDER] [--repeats 5] [--json OUT]

TorchFix (`pip install torchfix`, best in an environment of its own) is given the same folder and all its rules. Each
time is a whole command, start of Python included: without a cache, with one that has just been filled, and TorchFix.
Goals: under 3 s without a cache and 0.5 s with one, on two cores; at least 30 times as fast as TorchFix.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import corpora

HERE = Path(__file__).parent


def seconds(command: list[str], folder: Path) -> float:
    """How long the command takes; findings (exit code 1) are no failure."""
    start = time.perf_counter()
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    took = time.perf_counter() - start
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended with {ran.returncode}: {ran.stderr[-400:]}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torchfix", required=True, help="the torchfix command")
    parser.add_argument("--folder", type=Path, default=HERE / ".corpora")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    package = next(name for name in corpora.packages() if name.startswith("torchtitan"))
    source = corpora.unpacked(package, arguments.folder)
    check = [sys.executable, "-m", "flatout", "check"]
    cold, warm, rival = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(source, tree)
        lines = sum(path.read_bytes().count(b"\n") for path in tree.rglob("*.py"))
        for _ in range(arguments.repeats):
            cold.append(seconds([*check, "--no-cache", "."], tree))
        seconds([*check, "."], tree)
        for _ in range(arguments.repeats):
            warm.append(seconds([*check, "."], tree))
        rival.append(seconds([arguments.torchfix, "--select=ALL", "."], tree))
        cold.append(seconds([*check, "--no-cache", "."], tree))
    report = {
        "lines": lines,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "check_seconds": {"median": statistics.median(cold), "all": cold, "goal": 3.0},
        "check_with_cache_seconds": {"median": statistics.median(warm), "all": warm, "goal": 0.5},
        "torchfix_seconds": rival,
        "ratio": rival[0] / statistics.median(cold),
        "ratio_goal": 30,
    }
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
