"""The measured tape: played unchanged it gives the steps that were measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flatout.explain.explanation import explanation_of
from flatout.explain.measured import measured_findings
from flatout.gpu import all_gpus
from flatout.recording import open_recording
from flatout.recording.schema import Place
from flatout.recording.tape import Fetch
from flatout.steps.parts import Stretch
from flatout.timeline import Host, play
from flatout.watch.taping import tape_of

SOURCE = Path(__file__).resolve().parents[2] / "src"
_SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 240
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.zeros(64)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Slow(), batch_size=4, num_workers=int(sys.argv[1]))
for epoch in range(2):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


def _facts(**changes: Any) -> Any:
    values = {
        "number": 0, "place": Place("train.py", 9), "workers": 0, "prefetch_factor": 2, "samples": 4, "pinned": False,
        "wait_seconds": 0.0, "batches": 0, "typical_seconds": lambda: 0.004, "busy_ratio": lambda: 0.1, **changes,
    }  # fmt: skip
    return SimpleNamespace(**values)


def _step(data: float = 0.004, work: float = 0.002) -> list[Stretch]:
    return [Stretch("data", data, 0), Stretch("forward", work / 2), Stretch("backward", work / 2)]


def test_a_tape_plays_its_steps() -> None:
    steps = [_step(work=work * 1e-3) for work in (2, 2, 2, 9)]
    tape = tape_of(steps[:3], [_facts()], 4)
    assert tape is not None
    assert play(tape, all_gpus()[0], Host()).step_seconds == pytest.approx(0.006)


def test_evaluations_and_the_ends_of_epochs_are_not_on_it() -> None:
    odd = [*_step(), Stretch("evaluation", 1.0)]
    end = [Stretch("data", 0.5, 0), *_step()]
    tape = tape_of([_step(), odd, end, _step()], [_facts()], 4)
    assert tape is not None
    assert tape.steps == 2
    assert sum(isinstance(event, Fetch) for event in tape.events) == 2


def test_no_steps_make_no_tape() -> None:
    assert tape_of([], [], 0) is None


def _finding_codes(facts: dict[str, Any], loader: Any) -> list[str]:
    tape = tape_of([_step()] * 9, [loader], 9)
    return [one.code for one in measured_findings(tape, {"cores": 4, "threads": 1, **facts}, 0.006, 100)]


def test_workers_are_proposed_where_processors_are_free() -> None:
    slow = _facts(typical_seconds=lambda: 0.030)
    assert _finding_codes({}, slow) == ["FO304"]
    assert _finding_codes({"threads": 4}, slow) == []
    assert _finding_codes({}, _facts(typical_seconds=lambda: 1e-4)) == []


_LOADER = {
    "workers": 2, "iterators": 10, "start_seconds": 1.0, "first_seconds": 1.0, "batch_seconds": 0.004,
    "file": "train.py", "line": 9,
}  # fmt: skip


@pytest.mark.parametrize(("iterators", "codes"), [(10, ["FO303"]), (1, [])])
def test_workers_that_are_started_again(iterators: int, codes: list[str]) -> None:
    quick = _facts(typical_seconds=lambda: 1e-5)
    assert _finding_codes({"loaders": [{**_LOADER, "iterators": iterators}]}, quick) == codes
    assert _finding_codes({"loaders": [{**_LOADER, "workers": 0}]}, quick) == []


@pytest.mark.parametrize(("count", "seconds", "codes"), [(100, 2.0, ["FO504"]), (2, 2.0, []), (100, 1e-4, [])])
def test_collections_that_are_asked_for(count: int, seconds: float, codes: list[str]) -> None:
    asked = [{"file": "train.py", "line": 12, "count": count, "seconds": seconds}]
    quick = _facts(typical_seconds=lambda: 1e-5)
    assert _finding_codes({"garbage_collection": {"asked": asked}}, quick) == codes


@pytest.mark.integration
@pytest.mark.parametrize("workers", [0, 2])
def test_a_real_run_is_played_as_it_was(tmp_path: Path, workers: int) -> None:
    (tmp_path / "train.py").write_text(_SCRIPT, encoding="utf-8")
    recording, result = tmp_path / "run.flatout", tmp_path / "run.json"
    command = [sys.executable, "-m", "flatout", "profile", "-o", recording, "--json", result, "train.py", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [str(word) for word in command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    with open_recording(recording) as kept:
        tape, facts = kept.tape(), kept.facts()
        time = explanation_of(kept).step_seconds
    assert tape is not None
    assert time is not None
    assert facts["loaders"][0]["iterators"] == 2
    played = play(tape, all_gpus()[0], Host(cores=facts["cores"])).step_seconds
    own = [one for one in tape.events if isinstance(one, Fetch)]
    assert len(own) == tape.steps
    assert played == pytest.approx(time.median_seconds, rel=0.25)
    assert json.loads(result.read_text("utf-8"))["schema"] == "flatout.explanation/1"
