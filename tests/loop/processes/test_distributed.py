"""Real processes over gloo. Each launch runs all cases of ranks_cases.py; each test here looks at one outcome."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
import torch

import several_processes

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"
CASES = re.findall(r"^@case\ndef (\w+)", (HERE / "ranks_cases.py").read_text(), re.MULTILINE)
SHARDS_ON_CPU = hasattr(torch.cpu.Stream, "record_event")
OF_THREE = [  # where it matters that a batch can be smaller than the number of ranks
    "ddp_equals_one_process_with_the_whole_batch",
    "tokens_that_differ_by_rank_make_the_global_mean",
    "fsdp_equals_one_process_with_the_whole_batch",
    "evaluated_samples_count_once",
    "a_prepared_loader_trains_as_one_process_with_batches_as_many_times_as_large",
    "prepared_loaders_are_evaluated_without_repeats",
    "rows_of_different_lengths_are_gathered",
    "a_stream_that_ends_in_the_middle_of_a_window",
    "exchanges",
]
TIMEOUT_SECONDS = 150


def launch(script: Path, ranks: int, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
    return several_processes.launch(script, ranks, *arguments, timeout_seconds=TIMEOUT_SECONDS)


Outcomes = list[dict[str, str]]


def run_cases(folder: Path, ranks: int, *names: str) -> Outcomes:
    ended = launch(HERE / "ranks_cases.py", ranks, str(folder / "outcome"), *names)
    assert [process.returncode for process in ended] == [0] * ranks, "\n".join(process.stderr for process in ended)
    assert not any("Warning" in process.stderr for process in ended), ended[0].stderr
    return [json.loads((folder / f"outcome.{rank}").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return run_cases(tmp_path_factory.mktemp("two"), 2)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return run_cases(tmp_path_factory.mktemp("three"), 3, *OF_THREE)


@pytest.mark.integration
@pytest.mark.parametrize("name", CASES)
def test_two_ranks(two: Outcomes, name: str) -> None:
    assert_ok(two, name)


@pytest.mark.integration
@pytest.mark.parametrize("name", OF_THREE)
def test_three_ranks(three: Outcomes, name: str) -> None:
    assert_ok(three, name)


def assert_ok(outcomes: Outcomes, name: str) -> None:
    if name.startswith("fsdp") and not SHARDS_ON_CPU:
        pytest.skip(f"PyTorch {torch.__version__} shards on GPUs only")
    for rank, outcome in enumerate(outcomes):
        assert outcome.get(name, "a case before it failed") == "ok", f"rank {rank}: {outcome.get(name)}"


STOPPING = """
import sys, torch, flatout
loop = flatout.Loop(device="cpu", quiet=True)
model, optimizer = torch.nn.Linear(3, 3), None
model, optimizer = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(1000):
    if step == 5 and loop.ranks.rank == 1:
        raise ValueError("a bad sample on rank 1")
    with loop.step(samples=1):
        loop.backward(model(torch.ones(1, 3)).sum())
    if sys.argv[1] == "metrics":
        loop.log(loss=1.0)
        loop.metrics()
"""


@pytest.mark.integration
@pytest.mark.parametrize("where", ["backward", "metrics"])
def test_a_rank_that_stops_ends_the_others(tmp_path: Path, where: str) -> None:
    script = tmp_path / "stopping.py"
    script.write_text(STOPPING)
    start = time.monotonic()
    first, second = launch(script, 2, where)
    assert time.monotonic() - start < 60
    assert second.returncode == 1
    assert "a bad sample on rank 1" in second.stderr
    assert first.returncode == 1
    assert "TrainingError: rank 0 waited for the other processes" in first.stderr
    assert "the first error in the output of the others says why" in first.stderr


PLAIN = """
import os, torch, flatout
import torch.distributed as dist
dist.init_process_group("gloo")
group = dist.group.WORLD
loop = flatout.Loop(device="cpu")
assert dist.group.WORLD is group
rank = int(os.environ["RANK"])
assert (loop.ranks.rank, loop.ranks.count, loop.ranks.local_rank) == (rank, 2, rank)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
model, _ = loop.prepare(model, torch.optim.Adam(model.parameters()))
loop.print("once")
loop.ranks.barrier()
dist.destroy_process_group()
"""


@pytest.mark.integration
def test_what_is_said_in_a_group_of_the_users_own(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(PLAIN)
    first, second = launch(script, 2)
    assert (first.returncode, first.stdout, second.stdout) == (0, "once\n", ""), first.stderr
    lines = first.stderr.splitlines()
    assert [line for line in lines if "strategy" in line] == ["flatout: 2 processes, strategy ddp (on a CPU)"], (
        first.stderr
    )
    assert sum("BatchNorm normalises each process's batch by itself" in line for line in lines) == 1
    assert len(lines) == 3, first.stderr
    assert second.stderr == ""


ENDING = """
import sys, torch, flatout
sys.setswitchinterval(100)  # the main thread keeps the interpreter's lock as long as it can
loop = flatout.Loop(device="cpu", quiet=True)
model = torch.nn.Linear(2, 1)
model, optimizer = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
for epoch in loop.epochs(1):
    with loop.step(samples=3):
        loop.backward(model(torch.ones(3, 2)).mean())
"""


@pytest.mark.integration
def test_processes_that_end_right_after_an_exchange_end_well(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING)
    ends = [end for _ in range(2) for end in launch(script, 2)]
    assert {(end.returncode, end.stderr) for end in ends} == {(0, "")}
