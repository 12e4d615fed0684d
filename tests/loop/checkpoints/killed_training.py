"""A real training that is killed and resumed, many times; what it found goes to stdout as JSON.

    python killed_training.py FOLDER KILLS PRECISION WORKERS RANKS

Every run is a process of its own, forked from this one, which has torch loaded and has never computed anything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo  # the first optimizer step loads it: once here, not in every run
from torch import nn
from torch.utils.data import DataLoader, Dataset

from flatout import Loop

SAMPLES, BATCH, EPOCHS = 78, 4, 5  # 20 batches an epoch, the last of 2; on two ranks 10, the last of 3 on each
ACCUMULATE = 3  # six windows of 3 and a last one of 2; on two ranks three, and one of 1
FSYNC_SECONDS = 0.02  # as of a slow disk, so that kills land in the middle of writing
AT_ONCE = 2


class Augmented(Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.full((16,), i / SAMPLES) + 0.1 * torch.randn(16) * random.random()
        return x, torch.tensor([i % 7 / 7])


def train(folder: Path, precision: str, workers: int) -> dict[str, Any]:
    """The training script, as a user writes it."""
    torch.manual_seed(3)
    random.seed(3)
    loop = Loop(device="cpu", precision=precision, accumulate=ACCUMULATE, clip_norm=1.0, quiet=True)
    model = nn.Sequential(
        nn.Linear(16, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 256), nn.Linear(256, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    by_step = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.9)
    by_epoch = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    data = DataLoader(Augmented(), batch_size=BATCH, shuffle=True, num_workers=workers)
    model, optimizer, by_step, loader = loop.prepare(model, optimizer, by_step, data)
    held_out = loop.prepare(DataLoader(Augmented(), batch_size=16))
    loop.keep(by_epoch=by_epoch)
    loop.resume(folder)
    best, saved = loop.extra.get("best", 1e9), loop.optimizer_steps
    for _ in loop.epochs(EPOCHS):
        for x, y in loader:
            with loop.step():
                loss = loop.backward(nn.functional.mse_loss(model(x), y))
            loop.log(loss=loss)
            if loop.optimizer_steps >= saved + 3:
                saved = loop.optimizer_steps
                loop.save(folder, keep=2, best=best)
        with loop.evaluation():
            for x, y in held_out:
                loop.log(held_out=nn.functional.mse_loss(model(x), y))
        best = min(best, loop.metrics()["held_out"])
        by_epoch.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best, "next": torch.rand(3)}


class Kind(NamedTuple):
    """How the training is run: its precision, the workers of its loader, the processes that train together."""

    precision: str
    workers: int
    ranks: int


real_fsync = os.fsync


def slow_fsync(handle: int) -> None:
    time.sleep(FSYNC_SECONDS)
    real_fsync(handle)


def start(case: Path, kind: Kind) -> list[int]:
    """Train in processes of their own. Gives back their ids."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(kind.ranks):
        if child := os.fork():
            children.append(child)
            continue
        try:
            if kind.ranks > 1:
                of_torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": kind.ranks, "MASTER_PORT": port}
                os.environ.update({"MASTER_ADDR": "127.0.0.1", **{k: str(v) for k, v in of_torchrun.items()}})
            os.fsync = slow_fsync
            result = train(case / "checkpoints", kind.precision, kind.workers)
            if rank == 0:
                torch.save(result, case / "result.pt")
            if kind.ranks > 1:
                torch.distributed.destroy_process_group()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return children


def kill_once(case: Path, delay_seconds: float, kind: Kind) -> dict[str, Any]:
    """Start, kill, resume. `killed` is False where the run was through before."""
    case.mkdir()
    children = start(case, kind)
    time.sleep(delay_seconds)
    for child in children:
        os.kill(child, signal.SIGKILL)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    folder = case / "checkpoints"
    there = os.listdir(folder) if folder.exists() else []
    report = {
        "delay_seconds": delay_seconds,
        "killed": all(map(os.WIFSIGNALED, statuses)) and not (case / "result.pt").exists(),
        "versions": sorted(name for name in there if name.startswith("step-")),
        "unfinished": sum(name.endswith(".unfinished") for name in there),
    }
    if report["killed"]:
        report["resumed_well"] = not any(os.waitpid(child, 0)[1] for child in start(case, kind))
        report["left_over"] = sum(name.endswith(".unfinished") for name in os.listdir(folder))
        report["kept"] = len(os.listdir(folder))
    return report


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def main(root: Path, kills: int, kind: Kind) -> None:
    started = time.perf_counter()
    wholes = [root / f"whole{i}" for i in range(AT_ONCE)]  # at once, as the killed runs are: one alone is faster
    for whole in wholes:
        whole.mkdir()
    for run in [child for whole in wholes for child in start(whole, kind)]:
        os.waitpid(run, 0)
    run_seconds = time.perf_counter() - started
    expected = [_load(whole / "result.pt") for whole in wholes]
    delays = random.Random()
    running: dict[int, int] = {}
    reports: list[dict[str, Any]] = []
    tried = 0
    while sum(report["killed"] for report in reports) < kills and tried < 10 * kills:
        while len(running) < AT_ONCE and tried < 10 * kills:
            delay = delays.uniform(0, run_seconds)
            if not (runner := os.fork()):
                report = kill_once(root / str(tried), delay, kind)
                (root / f"{tried}.json").write_text(json.dumps(report))
                os._exit(0)
            running[runner], tried = tried, tried + 1
        done, _ = os.waitpid(-1, 0)
        number = running.pop(done)
        reports.append(json.loads((root / f"{number}.json").read_text()))
        if not reports[-1]["killed"]:
            run_seconds = min(run_seconds, reports[-1]["delay_seconds"])  # it was through by then
        else:
            result = _load(root / str(number) / "result.pt")
            reports[-1]["equal"] = all(same(whole, result) for whole in expected)
    for runner in running:
        os.waitpid(runner, 0)
    print(json.dumps({"run_seconds": run_seconds, "reports": [r for r in reports if r["killed"]][:kills]}))


def _load(path: Path) -> Any:
    return torch.load(path, weights_only=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Kind(sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
