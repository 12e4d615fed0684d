"""How fast a dry run is: whole commands, and the cost of one virtual operation taken apart.

    python benchmarks/speed.py [--runs 5] [--json OUT]

Commands are timed from outside as whole processes, in turn, and their medians and extremes are printed, with the
processor time of all their processes beside it: on a busy machine that is the figure to compare. The cost of an
operation is measured in a process of its own for each variant, again in turn: the full virtual GPU, without the tape
that step times come from, without a recording, and without a recording and the allocator (a stand-in that only counts).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "GPT-2 124M shape, batch 12 x 1024, 3 steps": ("nanogpt.py", []),
    "ResNet-50, batch 64 x 224 x 224, 3 steps": ("imagenet_resnet50.py", ["--batch-size", "64"]),
}
GOALS_SECONDS = {"GPT-2 124M shape, batch 12 x 1024, 3 steps": 8.0, "ResNet-50, batch 64 x 224 x 224, 3 steps": 5.0}
VARIANTS = ("full", "without the tape", "without recording", "without recording and allocator")

OPERATIONS = """
import sys, tempfile, time
import torch
from flatout.gpu import find
from flatout.recording import Writer
from flatout.recording.schema import Run
from flatout.virtual.boot import boot
from flatout.virtual.clock import Clock
from flatout.virtual.memory import DeviceMemory

variant = sys.argv[1]
writer = None
folder = tempfile.TemporaryDirectory()
if variant in ("full", "without the tape"):
    writer = Writer(folder.name + "/run.flatout", Run("virtual", "speed.py", (), str(torch.__version__), 0.0))
machine = boot(find("a100-40gb"), writer=writer)
machine.phase = "forward"
if variant == "full":
    machine.clock = Clock(machine)
if variant.endswith("allocator"):
    class Counting:
        allocated_bytes = peak_allocated_bytes = reserved_bytes = peak_reserved_bytes = 0
        def malloc(self, size_bytes, stream=0):
            return self
        def free(self, block):
            pass
        address = size_bytes = stream = 0
    machine.gpus[0].memory.allocator = Counting()
x = torch.empty(1024, 1024, device="cuda")
weight = torch.empty(1024, 1024, device="cuda", requires_grad=True)

def forward_and_backward():
    y = x
    for _ in range(10):
        y = torch.nn.functional.gelu(y @ weight) + 1
    y.sum().backward()

for _ in range(20):
    forward_and_backward()
before = machine.operations
begin = time.process_time()
for _ in range(200):
    forward_and_backward()
    if machine.clock is not None:
        machine.step = 1
        machine.clock.step_completed()
print((time.process_time() - begin) / (machine.operations - before) * 1e6)
"""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def _processor_seconds() -> float:
    """Of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_command(script: str, arguments: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of one whole ``flatout predict``, process start and all."""
    command = [sys.executable, "-m", "flatout", "predict", "--gpu", "a100-40gb", "--steps", "3"]
    begin, used = time.perf_counter(), _processor_seconds()
    done = subprocess.run(
        [*command, str(ROOT / "tests" / "scripts" / script), *arguments],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, processor_seconds = time.perf_counter() - begin, _processor_seconds() - used
    if done.returncode not in (0, 1) or "3 steps" not in done.stdout + done.stderr:
        raise SystemExit(f"{script} did not do its 3 steps:\n{done.stdout}{done.stderr}")
    return seconds, processor_seconds


def operation_microseconds(variant: str) -> float:
    """Processor microseconds for one virtual operation, forward and backward, PyTorch's own share included."""
    done = subprocess.run(
        [sys.executable, "-c", OPERATIONS, variant], env=_environment(), capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def _summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    commands: dict[str, list[float]] = {name: [] for name in COMMANDS}
    processor: dict[str, list[float]] = {name: [] for name in COMMANDS}
    operations: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(options.runs):
        for name, (script, arguments) in COMMANDS.items():
            seconds, processor_seconds = time_command(script, arguments)
            commands[name].append(seconds)
            processor[name].append(processor_seconds)
        for name in VARIANTS:
            operations[name].append(operation_microseconds(name))
    import torch

    load = os.getloadavg()[0]
    result: dict[str, Any] = {
        "schema": "flatout.benchmark.speed/1",
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processors": os.cpu_count(),
        "runs": options.runs,
        "load_average": round(load, 1),
        "command_seconds": {name: {**_summary(v), "goal": GOALS_SECONDS[name]} for name, v in commands.items()},
        "command_processor_seconds": {name: _summary(v) for name, v in processor.items()},
        "operation_microseconds": {name: _summary(v) for name, v in operations.items()},
    }
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} processors", end="")
    print(f" (load average {load:.1f}), {options.runs} runs\n")
    print(f"{'whole command':44} {'median':>7} {'low':>7} {'high':>7} {'goal':>7}   processor time")
    for name, row in result["command_seconds"].items():
        figures = " ".join(f"{row[key]:6.2f}s" for key in ("median", "low", "high", "goal"))
        print(f"{name:44} {figures}   {result['command_processor_seconds'][name]['median']:.2f}s")
    print(f"\n{'one virtual operation':48} {'median':>8} {'low':>8} {'high':>8}")
    for name, row in result["operation_microseconds"].items():
        print(f"{name:48} {row['median']:6.1f}us {row['low']:6.1f}us {row['high']:6.1f}us")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
