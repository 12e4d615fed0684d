"""Fresh worker processes of a script: the virtual GPU is there, and costs them little."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import predict

from flatout.recording import open_recording

pytestmark = pytest.mark.integration

WORKER = """
import sys
import torch

def work(queue):
    started = "torch._dynamo" in sys.modules
    x = torch.ones(3, device="cuda", requires_grad=True)
    (x * 2 + x * 3).sum().backward()
    queue.put((started, torch.cuda.get_device_name(), str(x.grad.device)))

if __name__ == "__main__":
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""


def test_a_fresh_worker_has_the_gpu_without_loading_the_compiler(tmp_path: Path) -> None:
    """PyTorch's compiler takes longer to load than all the rest, and a loader's worker has no use for it."""
    script = tmp_path / "train.py"
    script.write_text(WORKER)
    ran = predict(tmp_path, str(script), gpu="t4")
    assert ran.stdout == "(False, 'Tesla T4', 'cuda:0')\n", ran.report


LOADER = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            pass
        return torch.tensor([float(index)])

if __name__ == "__main__":
    weights = torch.zeros(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    seen = []
    for batch in DataLoader(Slow(), 4, num_workers=1, multiprocessing_context="spawn", pin_memory=True):
        seen += batch.flatten().int().tolist()
        print(seen, flush=True)
        (weights * batch.cuda(non_blocking=True)).sum().backward()
        optimizer.step()
"""


def test_batches_of_fresh_workers_and_the_speed_of_this_machine_are_in_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept there, they give the same prediction again, whatever machine that is made on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script, kept = tmp_path / "train.py", tmp_path / "kept.flatout"
    script.write_text(LOADER)
    ran = predict(tmp_path, str(script), gpu="t4", options=("--output", str(kept)))
    assert ran.stdout.splitlines()[-1] == str(list(range(12))), ran.report
    with open_recording(kept) as recording:
        tape = recording.tape()
        assert tape is not None
        assert recording.facts()["host"]["issue_ratio"] == tape.issue_ratio > 0
    (loader,) = tape.loaders
    assert (loader.workers, loader.samples, loader.pinned) == (1, 4, True)
    assert 0.02 <= loader.batch_seconds < 0.04
    (cached,) = (tmp_path / "cache" / "flatout").iterdir()
    cached.write_text(cached.read_text().replace('"issue_ratio":', '"issue_ratio":9'))
    again = predict(tmp_path, str(kept), gpu="t4")
    assert again.result["time"] == ran.result["time"]
