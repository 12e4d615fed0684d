"""What the constants of the host are made from."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "issuing.py"


@pytest.fixture(scope="module")
def issuing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("issuing", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def span(name: str, begin: float, duration: float, thread: str = "1", category: str = "Operator") -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, "tid": thread, "ts": begin, "dur": duration}


def test_medians_of_a_trace_by_phase(issuing: ModuleType, tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name"},
        span("ProfilerStep#1", 0, 1000),
        *(span("aten::linear", at, 15) for at in (0, 20, 40)),
        span("aten::addmm", 2, 10),  # inside of another
        *(span("aten::mm", at, 5, thread="2") for at in (100, 110, 120)),
        span("Optimizer.step#SGD.step", 200, 100),
        *(span("aten::add_", at, 3) for at in (210, 214, 218, 290)),
        span("cudaLaunchKernel", 5, 4, category="Runtime"),
    ]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    found = {phase: round(seconds * 1e6, 6) for phase, seconds in issuing.in_trace(path).items()}
    assert found == {"forward": 20, "backward": 10, "optimizer": 4, "launch": 4}


def test_this_machine_takes_microseconds(issuing: ModuleType) -> None:
    found = issuing.here()
    assert found.keys() == {"forward", "backward", "optimizer"}
    assert all(1e-7 < seconds < 1e-3 for seconds in found.values())
