"""Replays CUDA memory snapshots through the allocator model and compares every address.

    python benchmarks/replay_snapshots.py [--json OUT] FILE...

The snapshot's trace tells what was asked for and where PyTorch put it. The model gets the state before the first event
(see snapshot_start.py) and the requests; where each one lands is its own decision. Only the addresses of new segments,
which the CUDA driver chooses, are taken from the trace.

The figures for the recorded snapshots that the tests use are in results/replay_snapshots.json.

Per file: `allocations`, and of them `exact_addresses`; `segments` of the last state, and of them `exact_segments` (same
address, size, stream and blocks); `peak_allocated_bytes` of the model, and `recorded_peak_allocated_bytes`: the same
peak from recorded addresses alone. Exit code 1 where anything differs, 2 where a file cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from snapshot_layout import RecordedLayout, StartSegment, follow
from snapshot_start import reconstruct

from flatout.errors import FlatoutError, UnreadableFileError
from flatout.importers.cuda_snapshot import CudaSnapshot, TraceEvent, read_cuda_snapshot
from flatout.virtual.allocator import AllocatorConfiguration, Block, CachingAllocator, DeviceMemory

UNLIMITED_BYTES = 1 << 46
OTHER_STREAM = -1


@dataclass
class Outcome:
    """What one trace gave."""

    allocations: int = 0
    exact_addresses: int = 0
    segments: int = 0
    exact_segments: int = 0
    peak_allocated_bytes: int = 0
    recorded_peak_allocated_bytes: int = 0

    @property
    def is_exact(self) -> bool:
        return (
            self.exact_addresses == self.allocations
            and self.exact_segments == self.segments
            and self.peak_allocated_bytes == self.recorded_peak_allocated_bytes
        )


class RecordedDevice(DeviceMemory):
    """A device that gives the recorded segments in their order, and room of its own where none is recorded."""

    def __init__(self) -> None:
        super().__init__(UNLIMITED_BYTES)
        self.next_segments: deque[TraceEvent] = deque()

    def malloc(self, size_bytes: int) -> int | None:
        if self.next_segments and self.next_segments[0].size == size_bytes:
            address = self.next_segments.popleft().addr
            self.claim(address, size_bytes)
            return address
        return super().malloc(size_bytes)


class Replay:
    """One device's trace, run through the model."""

    def __init__(self, snapshot: CudaSnapshot, device_index: int, start: list[StartSegment]) -> None:
        self.configuration = configuration_of(snapshot)
        self.device = RecordedDevice()
        self.done_frees: set[int] = set()
        self.allocator = CachingAllocator(
            UNLIMITED_BYTES,
            configuration=self.configuration,
            device=self.device,
            record_event=lambda stream: self.freeing,
            event_done=lambda address: address in self.done_frees,
        )
        self.freeing = 0
        self.trace = snapshot.device_traces[device_index]
        self.segments = [segment for segment in snapshot.segments if segment.device == device_index]
        self.blocks = self.allocator.restore(segment.as_entry() for segment in start)
        copies = [replace(block) for segment in start for block in segment.blocks]
        pool_ids = {segment.address: segment.segment_pool_id for segment in self.segments}
        self.layout = RecordedLayout(start, sorted(copies, key=lambda block: block.address), pool_ids)
        for segment in start:
            for block in segment.blocks:
                if block.is_pending:
                    self.free_later(block.address)
        self.allocator.reset_peaks()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        for index, event in enumerate(self.trace):
            if event.action == "alloc":
                self.allocate(event)
            elif event.action == "free_requested":
                following = self.trace[index + 1] if index + 1 < len(self.trace) else None
                if following is not None and following.action == "free_completed" and following.addr == event.addr:
                    self.free(event.addr)
                else:
                    self.free_later(event.addr)
            elif event.action == "free_completed":
                self.done_frees.add(event.addr)
                self.allocator.process_events()
                self.done_frees.discard(event.addr)
            elif event.action == "segment_alloc":
                self.device.next_segments.append(event)
            elif event.action == "segment_free":
                self.allocator.release_segment(event.addr)
            if event.action != "alloc":
                follow(self.layout, event)
        self.compare()
        return self.outcome

    def allocate(self, event: TraceEvent) -> None:
        segment = self.layout.segment_at(event.addr)
        pool_id = (0, 0) if segment is None else segment.pool_id
        if pool_id != (0, 0):
            self.allocator.begin_allocate_to_pool(pool_id)
        block = self.allocator.malloc(event.size, event.stream)
        if pool_id != (0, 0):
            self.allocator.end_allocate_to_pool(pool_id)
        self.device.next_segments.clear()
        self.outcome.allocations += 1
        self.outcome.exact_addresses += block.address == event.addr
        self.blocks[event.addr] = block
        self.layout.allocate(event.addr, event.size, self.configuration.roundup_power2_divisions)

    def free(self, address: int) -> None:
        self.allocator.free(self.blocks.pop(address))

    def free_later(self, address: int) -> None:
        self.freeing = address
        block: Block = self.blocks.pop(address)
        self.allocator.record_stream(block, OTHER_STREAM)
        self.allocator.free(block)

    def compare(self) -> None:
        modelled = {segment["address"]: segment for segment in self.allocator.segments()}
        for segment in self.segments:
            self.outcome.segments += 1
            same = modelled.get(segment.address)
            self.outcome.exact_segments += (
                same is not None
                and (same["total_size"], same["stream"]) == (segment.total_size, segment.stream)
                and [(block["address"], block["size"], block["state"] != "inactive") for block in same["blocks"]]
                == [(address, block.size, block.is_active) for address, block in segment.placed_blocks()]
            )
        self.outcome.peak_allocated_bytes = self.allocator.peak_allocated_bytes
        self.outcome.recorded_peak_allocated_bytes = self.layout.peak_allocated_bytes


def configuration_of(snapshot: CudaSnapshot) -> AllocatorConfiguration:
    text = snapshot.allocator_settings.get("PYTORCH_CUDA_ALLOC_CONF", "")
    return AllocatorConfiguration.parse(text) if isinstance(text, str) else AllocatorConfiguration()


def replay_file(path: Path) -> dict[str, Any]:
    """The figures of one file, summed over its devices."""
    snapshot = read_cuda_snapshot(path)
    if any(segment.is_expandable for segment in snapshot.segments):
        raise UnreadableFileError(f"{path}: has expandable segments, whose full address range a snapshot does not tell")
    total = Outcome()
    try:
        _replay_devices(snapshot, total)
    except (KeyError, ValueError, AssertionError) as error:
        raise UnreadableFileError(f"{path}: its trace contradicts its segments ({error}). Record it again.") from None
    if total.allocations == 0:
        raise UnreadableFileError(f"{path}: has no trace. Call torch.cuda.memory._record_memory_history() first.")
    return {"file": path.name, **vars(total), "exact": total.is_exact}


def _replay_devices(snapshot: CudaSnapshot, total: Outcome) -> None:
    configuration = configuration_of(snapshot)
    for device, trace in enumerate(snapshot.device_traces):
        if not trace:
            continue
        start = reconstruct(snapshot, device, configuration.roundup_power2_divisions)
        outcome = Replay(snapshot, device, start).run()
        for name, value in vars(outcome).items():
            setattr(total, name, getattr(total, name) + value)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Replay CUDA memory snapshots through the allocator model.")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures as JSON")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows, failed = [], False
    for path in options.files:
        try:
            rows.append(replay_file(path))
        except FlatoutError as error:
            print(error, file=sys.stderr)
            failed = True
    print(
        f"{'file':48} {'allocations':>11} {'exact':>7} {'segments':>8} {'exact':>7}"
        f" {'peak allocated':>14} {'recorded':>14}"
    )
    for row in rows:
        print(
            f"{row['file'][:48]:48} {row['allocations']:>11} {row['exact_addresses']:>7} {row['segments']:>8}"
            f" {row['exact_segments']:>7} {row['peak_allocated_bytes']:>14} {row['recorded_peak_allocated_bytes']:>14}"
        )
    if options.json is not None:
        report = {"schema": "flatout.snapshot-replay/1", "files": rows}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if failed:
        return 2
    return 0 if all(row["exact"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
