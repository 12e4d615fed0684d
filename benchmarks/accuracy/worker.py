"""Runs scripts on the virtual GPU, each in a fork of one process that has imported what they need.

    python benchmarks/accuracy/worker.py MODULE...     jobs as JSON lines on stdin, outcomes as JSON lines on stdout

A job is ``{"script", "arguments", "gpu", "gpus_file", "capacity_bytes", "limit_seconds"}``; `capacity_bytes` is
what PyTorch may reserve, null for no limit. Starting Python, PyTorch and timm for each of hundreds of runs would
cost more than the runs. What a fork gives is the same as what ``flatout predict`` gives (see ``run.py
--check-command``).
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
import warnings
from typing import Any

UNLIMITED_BYTES = 1 << 50
Job = dict[str, Any]


def run(job: Job) -> dict[str, Any]:
    """Run the script of a job to its end in this process, and tell what its GPU's memory did."""
    from pathlib import Path

    from flatout.gpu import find
    from flatout.virtual.boot import boot

    specification = find(job["gpu"], Path(job["gpus_file"]))
    capacity = job["capacity_bytes"]
    usable = UNLIMITED_BYTES if capacity is None else capacity + specification.context_bytes
    machine = boot(specification, usable_bytes=usable)
    sys.argv = [job["script"], *job["arguments"]]
    started = time.perf_counter()
    outcome, message = "fits", ""
    namespace: dict[str, Any] = {}
    try:
        namespace = runpy.run_path(job["script"], run_name="__main__")
    except BaseException as error:
        import torch

        outcome = "out_of_memory" if isinstance(error, torch.OutOfMemoryError) else "error"
        message = str(error) if outcome == "out_of_memory" else traceback.format_exc()[-2000:]
    memory = machine.gpus[0].memory
    peak = memory.peak()
    return {
        "outcome": outcome,
        "message": message,
        "peak_allocated_bytes": peak.allocated_bytes,
        "peak_reserved_bytes": peak.reserved_bytes,
        "upper_bound_bytes": peak.upper_bound_bytes,
        "by_category": peak.by_category,
        "peak_phase": peak.phase,
        "operations": machine.operations,
        "run_seconds": round(time.perf_counter() - started, 2),
        "told": namespace.get("RESULT"),
    }


def serve() -> None:
    """One fork for each job; its outcome comes back through a pipe."""
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(job["limit_seconds"])
            os.dup2(2, 1)  # what the script prints is not an outcome
            with os.fdopen(writing, "w") as pipe:
                try:
                    json.dump(run(job), pipe)
                except BaseException:
                    json.dump({"outcome": "error", "message": traceback.format_exc()[-2000:]}, pipe)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if not answer:
            answer = json.dumps({"outcome": "error", "message": f"the process ended with status {status}"})
        print(answer, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for module in sys.argv[1:]:
        importlib.import_module(module)
    serve()
