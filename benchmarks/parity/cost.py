"""What Loop costs beside the plain loop: time and peak memory, paired, start-up apart. Run it on an idle machine.

    python benchmarks/parity/cost.py [--seconds 60] [--pairs 4] [--only NAME] [--json OUT] [--page docs/loop-parity.md]

Time: the plain loop, Loop and the plain loop again in one process, in blocks of half a second that take turns; 6 such
processes, in which they are made in different orders, `--seconds` of each loop in all. Two copies of the same program
differ by where their memory lies, by 1 or 2 % here and as long as a process lives, so a process is one observation: the
ratio is the mean over processes with a 95 % interval, and the plain loop against itself is in the table as the control.
Memory and start-up: processes of their own, A B B A ..., `--pairs` of each and a sixth as long; peak memory is what the
kernel counted.
Both must end with the same losses, or nothing is reported.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).resolve().parent)]
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"
BLOCK_SECONDS = 0.5
PROCESSES = 6
MARK = "measured:"
# Two-sided 95 % quantiles of Student's t by degrees of freedom; 1.96 + 2.4 / df is within 1 % beyond 10.
STUDENT = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


def interval(values: list[float]) -> tuple[float, float, float]:
    """The mean and its 95 % interval; the interval is infinite for fewer than two values."""
    mean, freedom = statistics.fmean(values), len(values) - 1
    if freedom < 1:
        return mean, -math.inf, math.inf
    quantile = STUDENT[freedom] if freedom < len(STUDENT) else 1.96 + 2.4 / freedom
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def ratio_of(ours: list[float], theirs: list[float]) -> list[float]:
    """The geometric mean of the pairs' ratios and its 95 % interval: [mean, low, high]."""
    return [math.exp(x) for x in interval([math.log(a / b) for a, b in zip(ours, theirs)])]


def child(name: str, mode: str, *numbers: float) -> dict[str, Any]:
    """Run this file in as many new processes as the work has ranks; what the first one measured."""
    from cost_work import WORKS

    ranks = WORKS[name].ranks
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(ranks):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment |= {key: str(value) for key, value in place.items()} if ranks > 1 else {}
        command = [sys.executable, __file__, "--child", name, mode, repr(time.time()), *map(repr, numbers)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{name}, {mode}: a process ended with an error")
    line = next(line for line in outputs[0].splitlines() if line.startswith(MARK))
    found: dict[str, Any] = json.loads(line.removeprefix(MARK))
    return found


def run_child(name: str, mode: str, started: str, *numbers: str) -> dict[str, Any]:
    """What a child process does: alternate STEPS BLOCKS FIRST, or one arm alone for STEPS."""
    import torch
    from cost_work import WORKS, alone, alternate, join

    torch.set_num_threads(1)
    join(WORKS[name])
    if mode == "all":
        return alternate(WORKS[name], *map(int, numbers))
    return alone(WORKS[name], mode, int(numbers[0]), float(started))


def measure(name: str, seconds: float, pairs: int) -> dict[str, Any]:
    """One workload."""
    probe = child(name, "plain", 50)
    step_seconds = probe["seconds"] / 50
    block_steps = max(1, round(BLOCK_SECONDS / step_seconds))
    blocks = max(2, round(seconds / PROCESSES / BLOCK_SECONDS))
    runs = [child(name, "all", block_steps, blocks, first) for first in range(PROCESSES)]
    for run in runs:
        _require_same(name, run["losses"]["plain"], run["losses"]["loop"])
    seconds_of, cpu_of = (
        {arm: [statistics.fmean(run[kind][arm]) / block_steps for run in runs] for arm in ("plain", "loop", "again")}
        for kind in ("seconds", "cpu_seconds")
    )
    extra = interval([a - b for a, b in zip(seconds_of["loop"], seconds_of["plain"])])

    arms = [arm for i in range(pairs) for arm in (("plain", "loop") if i % 2 == 0 else ("loop", "plain"))]
    steps = max(1, round(seconds / 6 / step_seconds))
    alone: dict[str, list[dict[str, Any]]] = {"plain": [], "loop": []}
    for arm in arms:
        alone[arm].append(child(name, arm, steps))
    _require_same(name, *([run["loss"] for run in alone[arm]] for arm in ("plain", "loop")))
    return {
        "name": name,
        "step_seconds": statistics.median(seconds_of["plain"]),
        "processes": PROCESSES,
        "blocks": blocks,
        "block_steps": block_steps,
        "seconds_by_process": seconds_of,
        "time_ratio": ratio_of(seconds_of["loop"], seconds_of["plain"]),
        "control_ratio": ratio_of(seconds_of["again"], seconds_of["plain"]),
        "cpu_time_ratio": ratio_of(cpu_of["loop"], cpu_of["plain"]),
        "extra_seconds_per_step": list(extra),
        "runs": alone,
        "run_time_ratio": _ratio(alone, "seconds"),
        "startup_seconds": {arm: statistics.median(run["startup_seconds"] for run in alone[arm]) for arm in alone},
        "peak_bytes": {arm: statistics.median(run["peak_bytes"] or math.nan for run in alone[arm]) for arm in alone},
        "peak_ratio": _ratio(alone, "peak_bytes"),
    }


def _ratio(alone: dict[str, list[dict[str, Any]]], key: str) -> list[float] | None:
    values = {arm: [run[key] for run in runs] for arm, runs in alone.items()}
    if any(value is None for column in values.values() for value in column):
        return None
    return ratio_of(values["loop"], values["plain"])


def _require_same(name: str, plain: list[float], loop: list[float]) -> None:
    """Mean losses are added up in another order, in double precision; the losses themselves are the same."""
    for ours, theirs in zip(loop, plain):
        if not math.isclose(ours, theirs, rel_tol=1e-9):
            raise SystemExit(f"{name}: the mean losses differ, {theirs!r} and {ours!r} with Loop; nothing to compare")


def table(found: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        f"Measured on {found['date']}, PyTorch {found['torch']}, Python {found['python']}, {found['machine']}, one "
        f"thread a process, {found['seconds']:g} s of each loop; the intervals are of 95 %.",
        "",
        "| training | plain step | time with Loop | control: plain again | more per step | peak memory, plain "
        "| with Loop |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found["rows"]:
        mean, low, high = row["time_ratio"]
        extra, extra_low, extra_high = (1e6 * x for x in row["extra_seconds_per_step"])
        control, control_low, control_high = row["control_ratio"]
        peak = row["peak_ratio"]
        memory = f"{peak[0]:.4f} x ({peak[1]:.4f} to {peak[2]:.4f})" if peak else "not known"
        mib = row["peak_bytes"]["plain"] / 2**20
        lines.append(
            f"| {row['name']} | {1e3 * row['step_seconds']:.3g} ms | {mean:.4f} x ({low:.4f} to {high:.4f}) "
            f"| {control:.4f} x ({control_low:.4f} to {control_high:.4f}) "
            f"| {extra:.1f} µs ({extra_low:.1f} to {extra_high:.1f}) | {mib:.1f} MiB | {memory} |"
        )
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="what Loop costs beside the plain loop")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each loop in each measurement")
    parser.add_argument("--pairs", type=int, default=4, help="pairs of whole processes, for memory and start-up")
    parser.add_argument("--only", action="append", help="one workload; may be given more than once")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(MARK + json.dumps(run_child(*arguments.child)), flush=True)
        return
    import torch
    from cost_work import WORKS
    from pages import write_between

    rows = []
    for name in arguments.only or WORKS:
        row = measure(name, arguments.seconds, arguments.pairs)
        rows.append(row)
        mean, low, high = row["time_ratio"]
        print(
            f"{name}: {mean:.4f} x ({low:.4f} to {high:.4f}) of {1e3 * row['step_seconds']:.3g} ms, "
            f"plain again x {row['control_ratio']}, processor time x {row['cpu_time_ratio'][0]:.4f}, "
            f"{1e6 * row['extra_seconds_per_step'][0]:.1f} us more per step, peak memory x {row['peak_ratio']}, "
            f"start-up {row['startup_seconds']}",
            flush=True,
        )
    found = {
        "schema": "flatout.loop_cost/1",
        "date": datetime.date.today().isoformat(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} CPU cores ({platform.machine()})",
        "seconds": arguments.seconds,
        "rows": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if arguments.page:
        write_between(arguments.page, BEGIN, END, table(found))


if __name__ == "__main__":
    main()
