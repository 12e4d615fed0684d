"""Fresh worker processes of a script: the virtual GPU is there, and costs them little."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import predict

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
