"""What watching costs a step: the bare script, `flatout profile`, torch.profiler and TraceML, interleaved.

    python benchmarks/overhead.py --pairs 12 --json benchmarks/results/overhead.json

Every process prints the median of its own steps, from the end of one to the end of the next, by a clock in the script;
start-up is no part of it. A round runs each way once, in an order that turns; the ratio to the bare run of the same
round is one observation. Intervals are those of the median over rounds. TraceML needs `--traceml PYTHON`, a Python that
has `traceml-ai` and PyTorch; without it that way is left out and said to be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

STEP = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
width, steps, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)], torch.nn.Linear(width, 4))
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(32 * steps, width), torch.randint(0, 4, (32 * steps,)))
loader = DataLoader(data, batch_size=32)
ends = []
def train(ended=lambda: None):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        ended()
        ends.append(time.perf_counter())
if way == "torch.profiler":
    # Three steps of a hundred are written, the others pass through its hooks: how it is used on long runs.
    schedule = torch.profiler.schedule(wait=7, warmup=1, active=3, repeat=1)
    with torch.profiler.profile(schedule=schedule, record_shapes=True, with_stack=True) as profiler:
        train(profiler.step)
elif way == "torch.profiler, all steps":
    with torch.profiler.profile(record_shapes=True, with_stack=True):
        train()
else:
    train()
gaps = sorted(b - a for a, b in zip(ends[20:], ends[21:]))
print("median", gaps[len(gaps) // 2])
"""
WAYS = ("bare", "flatout profile", "torch.profiler", "torch.profiler, all steps")


def step_seconds(way: str, script: Path, width: int, steps: int, traceml: str | None) -> float:
    """The median step of one process. Raises RuntimeError with what it said where it printed none."""
    words = [str(script), str(width), str(steps), way]
    start = {"flatout profile": [sys.executable, "-m", "flatout", "profile"]}.get(way, [sys.executable])
    if way == "TraceML":
        start = [str(Path(str(traceml)).with_name("traceml")), "run"]
        words = [words[0], "--args", *words[1:]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*start, *words], capture_output=True, text=True, check=False, timeout=600, cwd=script.parent, env=environment
    )
    for line in ran.stdout.splitlines():
        if line.startswith("median "):
            return float(line.split()[1])
    raise RuntimeError(f"{way}: exit code {ran.returncode}: {ran.stderr[-800:]}")


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by ranks; the extremes where there are few values."""
    ordered = sorted(values)
    low = max(0, int(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5))
    return ordered[low], ordered[len(ordered) - 1 - low]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--traceml", help="a Python that has traceml-ai")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    ways = [*WAYS, *(["TraceML"] if asked.traceml else [])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "step.py"
        script.write_text(STEP, encoding="utf-8")
        for width in asked.widths:
            found: dict[str, list[float]] = {way: [] for way in ways}
            for round_ in range(asked.pairs):
                for way in ways[round_ % len(ways) :] + ways[: round_ % len(ways)]:
                    found[way].append(step_seconds(way, script, width, asked.steps, asked.traceml))
            for way in ways:
                extra = [seconds - bare for seconds, bare in zip(found[way], found["bare"])]
                ratios = [seconds / bare for seconds, bare in zip(found[way], found["bare"])]
                row = {
                    "width": width, "way": way, "step_seconds": median(found[way]), "extra_seconds": median(extra),
                    "extra_seconds_interval": interval(extra), "ratio": median(ratios),
                    "ratio_interval": interval(ratios), "runs": len(ratios),
                }  # fmt: skip
                rows.append(row)
                print(
                    f"{width:5} {way:26} {row['step_seconds'] * 1e3:8.3f} ms, {median(extra) * 1e6:+8.1f} us "
                    f"({interval(extra)[0] * 1e6:+.1f} to {interval(extra)[1] * 1e6:+.1f}), x{median(ratios):.3f}",
                    flush=True,
                )
    if not asked.traceml:
        print("TraceML was not measured: give --traceml")
    if asked.json:
        machine = {"python": platform.python_version(), "machine": platform.platform(), "processors": os.cpu_count()}
        asked.json.write_text(json.dumps({"machine": machine, "steps": asked.steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
