"""What issuing an operation takes the host: on this machine, and in PyTorch profiler traces of others.

The constants of `flatout.timeline.Host` are of the first table, made on the machine that its docstring names. Others
are beside it for comparison: a profiler that notes shapes makes everything that it sees several times as long.

    python benchmarks/issuing.py [TRACE.json.gz ...]
"""

from __future__ import annotations

import gzip
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatout.virtual.calibration import tiny_network

VIEW_SHARE = 1 / 3
"""A view counts as this share of an operation, as `Host.issue_seconds` has it."""
ROUNDS = 100


class Counting(TorchDispatchMode):
    """Counts operations, views as a share of one."""

    count = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        view = any(out.alias_info is not None and not out.alias_info.is_write for out in func._schema.returns)
        self.count += VIEW_SHARE if view else 1.0
        return func(*args, **(kwargs or {}))


def here() -> dict[str, float]:
    """Seconds an operation by phase on this machine's processor, its kernels of a few numbers included."""
    torch.set_num_threads(1)
    network = tiny_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    x = torch.ones(2, 4)
    loss = network(x).sum()
    loss.backward()
    optimizer.step()

    def forward() -> None:
        nonlocal loss
        loss = network(x).sum()

    def backward() -> None:
        optimizer.zero_grad()
        loss.backward()

    found: dict[str, float] = {}
    for name, phase in {"forward": forward, "backward": backward, "optimizer": optimizer.step}.items():
        forward()
        with Counting() as counting:
            phase()
        found[name] = _least(phase, forward if name == "backward" else None) / counting.count
    return found


def _least(phase: Callable[[], Any], prepare: Callable[[], Any] | None) -> float:
    least = float("inf")
    for _ in range(ROUNDS):
        if prepare is not None:
            prepare()
        began = time.thread_time()
        phase()
        least = min(least, time.thread_time() - began)
    return least


def in_trace(path: Path) -> dict[str, float]:
    """Median seconds from the begin of one outermost operation to that of the next, by phase; and of a launch."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    operators = [event for event in events if event.get("cat") in ("Operator", "cpu_op")]
    steps = [event for event in events if str(event["name"]).startswith("ProfilerStep")]
    optimizers = [event for event in events if str(event["name"]).startswith("Optimizer.step")]
    main = steps[0]["tid"]
    phases: dict[str, list[dict[str, Any]]] = {"forward": [], "backward": [], "optimizer": []}
    ends: dict[Any, float] = {}
    for event in sorted(operators, key=lambda event: (event["ts"], -event["dur"])):
        if not event["name"].startswith("aten::") or event["ts"] < ends.get(event["tid"], 0.0):
            continue
        ends[event["tid"]] = event["ts"] + event["dur"]
        if event["tid"] != main:
            phases["backward"].append(event)
        elif any(one["ts"] <= event["ts"] < one["ts"] + one["dur"] for one in optimizers):
            phases["optimizer"].append(event)
        else:
            phases["forward"].append(event)
    found = {name: _median_interval(of_phase) for name, of_phase in phases.items()}
    found["launch"] = median(event["dur"] for event in events if event["name"] == "cudaLaunchKernel") * 1e-6
    return found


def _median_interval(events: Sequence[dict[str, Any]]) -> float:
    return median(after["ts"] - before["ts"] for before, after in pairwise(events)) * 1e-6


def main(paths: Sequence[str]) -> None:
    tables = {f"here: Python {platform.python_version()}, PyTorch {torch.__version__}": here()}
    tables.update({Path(path).name: in_trace(Path(path)) for path in paths})
    for name, seconds in tables.items():
        print(name)
        for phase, value in seconds.items():
            print(f"  {phase:10} {value * 1e6:7.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
