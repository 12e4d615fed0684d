"""One process, and what is refused. (Many processes: test_distributed.py.)"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from flatout.errors import UsageError
from flatout.loop.processes.ranks import ADDRESS, LAUNCHED, Ranks, is_loss_of_peer, join, lost

CPU = torch.device("cpu")
WHOLE = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LAUNCHED, *ADDRESS):
        monkeypatch.delenv(name, raising=False)


def test_alone_every_exchange_gives_back_what_it_was_given() -> None:
    ranks = join(CPU)
    assert ranks == Ranks(0, 0, 1)
    assert ranks.is_first
    value = torch.ones(2)
    assert ranks.sum(value, CPU) is value
    assert ranks.sum(3, CPU) == 3
    assert ranks.any(True) is True
    assert ranks.gather(value) == [value]
    assert ranks.broadcast(value) is value
    ranks.barrier()


@pytest.mark.parametrize("missing", list(WHOLE))
def test_half_an_environment_is_refused_by_the_name_of_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name, value in WHOLE.items():
        if name != missing:
            monkeypatch.setenv(name, value)
    with pytest.raises(
        UsageError, match=rf"is set in the environment but {missing} is not; start many processes with `torchrun"
    ):
        join(CPU)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", "first", "RANK='first' in the environment is not a whole number from 0"),
        ("WORLD_SIZE", "-1", "WORLD_SIZE='-1' in the environment is not a whole number from 0"),
        ("RANK", "2", "RANK=2 in the environment, but WORLD_SIZE=2"),
    ],
)
def test_a_wrong_environment(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    for key, right in WHOLE.items():
        monkeypatch.setenv(key, right)
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        join(CPU)


def test_a_device_that_cannot_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, right in WHOLE.items():
        monkeypatch.setenv(key, right)
    with pytest.raises(UsageError, match="no way for several processes to exchange gradients on mps"):
        join(torch.device("mps"))


def test_the_loss_of_another_process_is_told_from_other_errors() -> None:
    gone = RuntimeError("[pair.cc:534] Connection closed by peer [127.0.0.1]:5\nmore")
    assert is_loss_of_peer(gone)
    assert not is_loss_of_peer(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert str(lost(3, "sum", gone)).endswith("PyTorch says: [pair.cc:534] Connection closed by peer [127.0.0.1]:5")
    assert "rank 3 waited for the other processes (sum)" in str(lost(3, "sum", gone))


LEAVES = """
import os, torch, flatout
from flatout.loop.processes import ranks

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
loop = flatout.Loop(device="cpu", quiet=True)
model = torch.nn.Linear(1, 1)
model, _ = loop.prepare(model, torch.optim.AdamW(model.parameters()))
with loop.step(samples=1):
    loop.backward(model(torch.ones(1, 1)).mean())
assert threads() > before
ranks._leave()
assert threads() == before, (before, threads())
"""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")
def test_no_thread_of_the_group_outlives_it() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    source = str(Path(__file__).resolve().parents[3] / "src")
    ran = subprocess.run(
        [sys.executable, "-c", LEAVES],
        env={**os.environ, **place, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_long_wait_for_the_others_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`if rank == 0: loop.save(...)` waits for the others until PyTorch gives up, which takes half an hour."""
    monkeypatch.setattr("flatout.loop.processes.ranks.HINT_SECONDS", 0.1)
    with Ranks(count=2).meeting("gather"):
        pass
    time.sleep(0.2)
    assert capsys.readouterr().err == ""
    with Ranks(count=2).meeting("gather"):
        time.sleep(0.5)
    assert "rank 0 has waited 0.1 s for the other processes (gather); every process" in capsys.readouterr().err
