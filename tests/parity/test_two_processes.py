"""Loop against plain DDP on two real processes with gloo: the same weights, bit for bit."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from parity_ranks import CASES

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 180


@pytest.mark.integration
def test_two_processes_end_with_the_plain_weights() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    folders = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "parity")])
    processes = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "parity" / "parity_ranks.py")],
            env={
                **os.environ,
                **place,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "PYTHONPATH": folders,
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (printed, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
        assert printed.splitlines() == [f"equal: {name}" for name in CASES]
