"""Processes that find each other as those of torchrun do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch.distributed as dist

SOURCE = Path(__file__).resolve().parents[1] / "src"


def launch(script: Path, ranks: int, *arguments: str, timeout_seconds: float) -> list[subprocess.CompletedProcess[str]]:
    """Run a script in `ranks` processes; what each said and how it ended.

    The store by which they meet is of this process, as it is of torchrun's: a free port that is only named to them
    may be taken by another test before they listen on it.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(script.parent)]),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=timeout_seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, output, errors)
        for process, (output, errors) in zip(processes, said, strict=True)
    ]
