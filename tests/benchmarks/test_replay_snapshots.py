"""The replay of snapshots: recorded ones where they are at hand, and ones made by the model itself."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flatout.virtual.allocator import Block, CachingAllocator
from flatout.virtual.allocator.sizes import MIB

ROOT = Path(__file__).resolve().parents[2]
ORACLES = Path(os.environ.get("FLATOUT_ORACLES", ROOT / "../shared/oracles")) / "cuda_snapshots"
MODULES = ("replay_snapshots", "snapshot_start", "snapshot_layout")


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("replay_snapshots")
    for name in MODULES:
        sys.modules.pop(name, None)


class Recorder:
    """Records a snapshot of the model, with a trace of its last `keep` events as from a ring buffer."""

    def __init__(self, seed: int, keep: int) -> None:
        self.random = random.Random(seed)
        self.events: list[dict[str, Any]] = []
        self.keep = keep
        self.done = False
        self.allocator = CachingAllocator(
            1 << 40, observer=self.note, event_done=lambda event: self.done, record_event=lambda stream: None
        )
        self.live: list[Block] = []

    def note(self, action: str, address: int, size_bytes: int, requested_bytes: int, stream: int) -> None:
        names = {"free": "free_requested"}
        size = size_bytes if "segment" in action else requested_bytes
        self.events.append({"action": names.get(action, action), "addr": address, "size": size, "stream": stream})

    def run(self, moves: int) -> dict[str, Any]:
        sizes = [700, 90_000, MIB, 3 * MIB, 11 * MIB, 16 * MIB, 21 * MIB, 40_960_000, 63 * MIB]
        for _ in range(moves):
            if self.random.random() < 0.5 + 0.2 * (len(self.live) < 40) - 0.2 * (len(self.live) > 80):
                size = self.random.choice(sizes) + self.random.randrange(0, 600_000)
                self.live.append(self.allocator.malloc(size, self.random.choice([0, 0, 0, 5])))
            elif self.live:
                self.free(self.live.pop(self.random.randrange(len(self.live))))
            if self.random.random() < 0.004:
                self.allocator.empty_cache()
        segments = [
            {**segment, "blocks": [{**block, "frames": []} for block in segment["blocks"]]}
            for segment in self.allocator.segments()
        ]
        return {"segments": segments, "device_traces": [self.events[-self.keep :]], "allocator_settings": {}}

    def free(self, block: Block) -> None:
        completed = {"addr": block.address, "size": block.requested_bytes, "stream": block.stream}
        self.allocator.free(block)
        self.events.append({"action": "free_completed", **completed})


@pytest.mark.parametrize("seed", range(12))
def test_replay_of_a_ring_buffer_whose_start_is_lost(replay: ModuleType, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "synthetic.pickle"
    path.write_bytes(pickle.dumps(Recorder(seed, keep=900).run(moves=1500), 4))
    row = replay.replay_file(path)
    assert row["allocations"] > 100
    assert row["exact_addresses"] == row["allocations"]
    assert row["exact_segments"] == row["segments"]
    assert row["peak_allocated_bytes"] == row["recorded_peak_allocated_bytes"]


def test_a_wrong_address_is_noticed(replay: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = Recorder(1, keep=5000).run(moves=200)
    event = next(event for event in value["device_traces"][0] if event["action"] == "alloc" and event["size"] > 2 * MIB)
    event["size"] -= 2 * MIB
    path = tmp_path / "wrong.pickle"
    path.write_bytes(pickle.dumps(value, 4))
    out = tmp_path / "out.json"
    assert replay.main(["--json", str(out), str(path)]) in (1, 2)
    capsys.readouterr()
    assert all(not row["exact"] for row in json.loads(out.read_text())["files"])


def test_a_snapshot_without_a_trace(replay: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}, 4))
    assert replay.main([str(path)]) == 2
    assert "has no trace" in capsys.readouterr().err


@pytest.mark.skipif(not ORACLES.is_dir(), reason="no recorded snapshots here (FLATOUT_ORACLES or ../shared/oracles)")
def test_recorded_snapshots_come_out_exactly(replay: ModuleType, tmp_path: Path) -> None:
    files = sorted(ORACLES.glob("*.pickle*"))
    out = tmp_path / "out.json"
    assert replay.main(["--json", str(out), *map(str, files)]) == 0
    report = json.loads(out.read_text())
    assert report["schema"] == "flatout.snapshot-replay/1"
    assert len(report["files"]) == len(files)
    assert all(row["exact"] for row in report["files"])
