"""The numbers of docs/concepts.md that a machine without a GPU can measure.

    python benchmarks/concepts.py            prints a table, writes benchmarks/results/concepts.json

- ring: bytes that cross the loopback interface in an all-reduce of gloo, beside 2 P (N - 1) / N a rank.
- graph: host memory that one kept loss holds after its backward pass, beside a detached one.
- small: how long the whole training of examples/digits takes on this CPU.
- matmul: the rate of a matrix product by size, and what PCIe would need to bring its operands and take the result away.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
PCIE_4_X16_BYTES_PER_SECOND = 31.5e9  # the link's rate by the standard: 16 lanes, 16 GT/s, 128b/130b


def loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    raise SystemExit("no loopback interface in /proc/net/dev")


def _reduce(rank: int, ranks: int, payload_bytes: int, port: int, results: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    tensor = torch.ones(payload_bytes // 4)
    dist.all_reduce(tensor)
    sent = []
    for _ in range(5):
        dist.barrier()
        before = loopback_bytes()
        dist.barrier()
        dist.all_reduce(tensor)
        dist.barrier()
        sent.append(loopback_bytes() - before)
    if rank == 0:
        results.put(statistics.median(sent))
    dist.destroy_process_group()


def ring(payload_bytes: int = 64 << 20) -> list[dict[str, float]]:
    rows = []
    for ranks in (2, 3, 4):
        results = mp.get_context("spawn").SimpleQueue()
        mp.spawn(_reduce, (ranks, payload_bytes, 29700 + ranks, results), nprocs=ranks)
        sent = results.get() / ranks
        rows.append(
            {
                "ranks": ranks,
                "payload_bytes": payload_bytes,
                "sent_bytes_per_rank": sent,
                "formula_bytes_per_rank": 2 * payload_bytes * (ranks - 1) / ranks,
            }
        )
    return rows


def graph(layers: int = 12, steps: int = 400) -> dict[str, float]:
    """Growth of the process per kept loss. The network is narrow: its graph is as long as a wide one's."""
    model = nn.Sequential(*(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(layers)))
    x = torch.randn(2, 8)

    def growth(keep: Any) -> float:
        kept: list[Any] = []
        for _ in range(50):
            loss = model(x).square().mean()
            loss.backward()
            kept.append(keep(loss))
        gc.collect()
        before = psutil.Process().memory_info().rss
        for _ in range(steps):
            loss = model(x).square().mean()
            loss.backward()
            kept.append(keep(loss))
        return (psutil.Process().memory_info().rss - before) / steps

    return {
        "layers": layers,
        "loss_bytes": growth(lambda t: t),
        "detached_bytes": growth(lambda t: t.detach()),
        "item_bytes": growth(lambda t: t.item()),
    }


def small() -> dict[str, float]:
    """Training examples/digits on this CPU: the eight epochs, and the whole command."""
    epochs, commands = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            command = [sys.executable, str(ROOT / "examples/digits/train.py"), "--device", "cpu"]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            commands.append(time.perf_counter() - started)
        epochs.append(float(re.findall(r"epoch.* ([\d.]+) s$", ran.stdout, re.MULTILINE)[-1]))
    return {"epochs_seconds": statistics.median(epochs), "command_seconds": statistics.median(commands)}


def matmul() -> list[dict[str, float]]:
    rows = []
    for n in (64, 256, 1024, 2048):
        a, b = torch.randn(n, n), torch.randn(n, n)
        times = []
        until = time.perf_counter() + 1.0
        while time.perf_counter() < until or len(times) < 5:
            started = time.perf_counter()
            a @ b
            times.append(time.perf_counter() - started)
        seconds = statistics.median(times)
        rows.append(
            {
                "n": n,
                "cpu_seconds": seconds,
                "cpu_flops": 2 * n**3 / seconds,
                "pcie_seconds": 3 * 4 * n * n / PCIE_4_X16_BYTES_PER_SECOND,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/concepts.json")
    args = parser.parse_args()
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu_threads": torch.get_num_threads(),
        "ring": ring(),
        "graph": graph(),
        "small": small(),
        "matmul": matmul(),
    }
    args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for row in result["ring"]:
        print("ring    ", row)
    print("graph   ", result["graph"])
    print("small   ", result["small"])
    for row in result["matmul"]:
        print("matmul  ", row)


if __name__ == "__main__":
    main()
