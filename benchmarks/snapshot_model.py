"""Runs the model of the published CUDA memory snapshots on the virtual GPU and holds the result against them.

    python benchmarks/snapshot_model.py [--json OUT] [--differences N] FILE...

The script is tests/scripts/snapshot_lm.py; what it does (context, training or inference, autocast) is read off each
file's name and trace. Per file: peak allocated and reserved bytes, predicted (of the whole run) and recorded (of the
traced step); how many of the recorded step's events come in the same order, and how far the multisets of sizes agree
(see `Comparison`). The GPU is an A100 without a memory limit: the snapshots' workspaces and reductions say that theirs
was of that kind, and no more of it is known.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import runpy
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replay_snapshots import Replay, configuration_of
from snapshot_events import Comparison, Difference, Event, VirtualTrace, compare, recorded_events
from snapshot_start import reconstruct

from flatout.errors import FlatoutError
from flatout.importers.cuda_snapshot import CudaSnapshot, read_cuda_snapshot

SCRIPT = Path(__file__).resolve().parents[1] / "tests/scripts/snapshot_lm.py"
GPU = "a100-40gb"
UNLIMITED_BYTES = 1 << 50


def arguments_for(path: Path, snapshot: CudaSnapshot) -> list[str]:
    """The script's arguments for a snapshot named as ``medium_512_training_memory_snapshot.pickle.xz``."""
    found = re.search(r"_(\d+)_(training|inference)_", path.name)
    if found is None:
        raise FlatoutError(f"{path.name}: the name says neither the context nor training or inference")
    arguments = ["--context", found[1]]
    if found[2] == "inference":
        arguments.append("--inference")
    # Only under autocast are there conversions.
    if any("_to_copy" in event.op for event in recorded_events(snapshot)):
        arguments.append("--autocast")
    return arguments


def recorded_peaks(snapshot: CudaSnapshot) -> tuple[int, int]:
    """Peak allocated bytes of the trace, and the reserved bytes at its end."""
    start = reconstruct(snapshot, 0, configuration_of(snapshot).roundup_power2_divisions)
    outcome = Replay(snapshot, 0, start).run()
    return outcome.recorded_peak_allocated_bytes, sum(segment.total_size for segment in snapshot.segments)


class VirtualRun:
    """One run of the script in this process: the peaks, and every event."""

    def __init__(self, arguments: list[str]) -> None:
        from flatout.gpu import find
        from flatout.virtual.boot import boot

        machine = boot(find(GPU), usable_bytes=UNLIMITED_BYTES)
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        memory = machine.gpus[0].memory
        self.trace = VirtualTrace(memory)
        handle = register_optimizer_step_post_hook(self.trace.end_window)
        before, sys.argv = sys.argv, [str(SCRIPT), *arguments]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(SCRIPT), run_name="__main__")
        finally:
            sys.argv = before
            handle.remove()
            self.trace.close()
        self.torch_version = str(torch.__version__)
        self.peak_allocated_bytes = int(memory.allocator.peak_allocated_bytes)
        self.peak_reserved_bytes = int(memory.allocator.peak_reserved_bytes)


def measure(path: Path, differences: int = 0) -> dict[str, Any]:
    """The figures of one file. It boots a virtual machine, so call it once a process."""
    snapshot = read_cuda_snapshot(path)
    run = VirtualRun(arguments_for(path, snapshot))
    recorded = recorded_events(snapshot)
    virtual = run.trace.window(recorded[0])
    comparison, opcodes = compare(recorded, virtual)
    show(opcodes[:differences], recorded, virtual)
    allocated, reserved = recorded_peaks(snapshot)
    return {
        "file": path.name,
        "torch": run.torch_version,
        "peak_allocated_bytes": run.peak_allocated_bytes,
        "recorded_peak_allocated_bytes": allocated,
        "peak_reserved_bytes": run.peak_reserved_bytes,
        "recorded_reserved_bytes": reserved,
        **figures(comparison),
    }


def figures(comparison: Comparison) -> dict[str, Any]:
    named = asdict(comparison)
    return {
        "recorded_events": named.pop("recorded"),
        "virtual_events": named.pop("virtual"),
        **{
            key: {str(k): v for k, v in value.items()} if isinstance(value, dict) else value
            for key, value in named.items()
        },
    }


def show(opcodes: list[Difference], recorded: list[Event], virtual: list[Event]) -> None:
    """The differences, for people."""
    for tag, i1, i2, j1, j2 in opcodes:
        print(f"--- {tag}: recorded {i1}:{i2}, virtual {j1}:{j2}")
        for mark, events in (("-", recorded[i1:i2]), ("+", virtual[j1:j2])):
            for event in events:
                source = "" if event.kind == "alloc" else f"of {event.source}"
                print(f"{mark} {event.kind} {event.size_bytes:>10} {event.op} {event.place} {source}")


def in_own_process(path: Path) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--one", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        return None
    return dict(json.loads(done.stdout))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hold the virtual GPU against recorded steps of a real one.")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures as JSON")
    parser.add_argument("--differences", type=int, default=0, metavar="N", help="print the first N differences")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.one or options.differences:
        try:
            row = measure(options.files[0], options.differences)
        except FlatoutError as error:
            print(error, file=sys.stderr)
            return 2
        print(json.dumps(row, indent=None if options.one else 2))
        return 0
    found = [in_own_process(path) for path in options.files]
    rows = [row for row in found if row is not None]
    print(
        f"{'file':44} {'allocated MiB':>19} {'off %':>6} {'reserved MiB':>15} {'off %':>6} {'in order':>8} {'sizes':>7}"
    )
    for row in rows:
        print(line(row))
    if options.json is not None:
        report = {"schema": "flatout.snapshot-model/1", "gpu": GPU, "files": rows}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if len(rows) == len(options.files) else 2


def line(row: dict[str, Any]) -> str:
    mib = 1 << 20
    allocated, recorded = row["peak_allocated_bytes"], row["recorded_peak_allocated_bytes"]
    reserved, held = row["peak_reserved_bytes"], row["recorded_reserved_bytes"]
    return (
        f"{row['file'][:44]:44} {allocated / mib:>9.1f}/{recorded / mib:>9.1f} {100 * (allocated / recorded - 1):>6.2f}"
        f" {reserved / mib:>7.0f}/{held / mib:>7.0f} {100 * (reserved / held - 1):>6.2f}"
        f" {row['events_in_order_ratio']:>8.4f} {row['sizes_ratio']:>7.4f}"
    )


if __name__ == "__main__":
    sys.exit(main())
