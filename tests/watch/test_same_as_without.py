"""A script behaves under `flatout profile` as without: stdout, exit code, files. The recording says how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatout.recording import open_recording

SOURCE = Path(__file__).resolve().parents[2] / "src"
_TRAIN = """
import os, sys, signal, threading
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(48, 8), torch.randint(0, 2, (48,)))
loss_fn = torch.nn.CrossEntropyLoss()
def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()
"""
SCRIPTS = {
    "plain": "print(train(DataLoader(data, batch_size=8)))\ntorch.save(model.state_dict(), 'model.pt')",
    "no_torch": (
        "import os, sys\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules, sys.argv, __name__, os.path.basename(__file__))"
    ),
    "imports": "import sys\nprint('torch' in sys.modules)\nimport torch\nprint(torch.nn.Module.train.__name__)",
    "environment": "import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\nprint(torch.get_num_threads())",
    "exit_3": "train(DataLoader(data, batch_size=8))\nsys.exit(3)",
    "exit_text": "sys.exit('no more')",
    "exception": "train(DataLoader(data, batch_size=8))\nraise ValueError('bad')",
    "os_exit": "print(train(DataLoader(data, batch_size=8)), flush=True)\nos._exit(5)",
    "killed": "print(train(DataLoader(data, batch_size=8)), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
    "swallowed": "try:\n    model(torch.zeros(3, 3))\nexcept RuntimeError as error:\n    print(str(error)[:30])",
    "workers_fork": "print(train(DataLoader(data, batch_size=8, num_workers=1)))",
    "workers_spawn": (
        "if __name__ == '__main__':\n"
        "    print(train(DataLoader(data, batch_size=8, num_workers=1, multiprocessing_context='spawn')))"
    ),
    "fork": "child = os.fork()\nif child == 0:\n    print(train(DataLoader(data, batch_size=8)), flush=True)\n"
    "    os._exit(0)\nos.waitpid(child, 0)\nprint('parent')",
    "process": (
        "import multiprocessing\n"
        "def work(queue): queue.put(train(DataLoader(data, batch_size=8)))\n"
        "if __name__ == '__main__':\n"
        "    queue = multiprocessing.Queue()\n"
        "    process = multiprocessing.Process(target=work, args=(queue,)); process.start()\n"
        "    print(queue.get()); process.join()"
    ),
    "subclassed_optimizer": (
        "class Mine(torch.optim.SGD):\n"
        "    def step(self, closure=None):\n"
        "        print('step'); return super().step(closure)\n"
        "optimizer = Mine(model.parameters(), lr=0.1)\nprint(train(DataLoader(data, batch_size=16)))"
    ),
    "patched_loader": (
        "import torch.utils.data.dataloader as module\n"
        "plain = module._BaseDataLoaderIter.__next__\n"
        "def patched(self):\n"
        "    print('batch'); return plain(self)\n"
        "module._BaseDataLoaderIter.__next__ = patched\nprint(train(DataLoader(data, batch_size=16)))"
    ),
    "executed": "exec(compile('print(train(DataLoader(data, batch_size=8)))', '<made up>', 'exec'))",
    "lbfgs": (
        "optimizer = torch.optim.LBFGS(model.parameters())\nx, y = data.tensors\n"
        "def closure():\n    optimizer.zero_grad(); loss = loss_fn(model(x), y); loss.backward(); return loss\n"
        "for _ in range(4): print(optimizer.step(closure).item())"
    ),
    "by_hand": (
        "del optimizer\nx, y = data.tensors\nfor _ in range(9):\n"
        "    model.zero_grad(); loss = loss_fn(model(x), y); loss.backward()\n"
        "    for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)\nprint(loss.item())"
    ),
    "thread": "t = threading.Thread(target=lambda: print(train(DataLoader(data, batch_size=8)))); t.start(); t.join()",
    "anomaly": "with torch.autograd.set_detect_anomaly(True):\n    print(train(DataLoader(data, batch_size=3)))",
    "collecting": "import gc\nfrom gc import collect\nprint(collect() >= 0, gc.collect(1) >= 0, gc.isenabled())",
    "random": "train(DataLoader(data, batch_size=3, shuffle=True))\nimport random\nprint(torch.rand(3).tolist())",
    "deep_copy": "import copy, pickle\nprint(len(pickle.dumps(DataLoader(data))) > 0)\nprint(copy.deepcopy(optimizer))",
}
_ALONE = {"no_torch", "imports", "environment"}
OUTCOMES = {
    "exit_3": "error",
    "exit_text": "error",
    "exception": "error",
    "os_exit": "error",
    "killed": "killed",
}
STEPS = {"plain": 6, "workers_fork": 6, "os_exit": 6, "lbfgs": 4, "by_hand": 9, "thread": 6, "anomaly": 16, "fork": 0}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"}


def _write(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / "train.py").write_text(("" if name in _ALONE else _TRAIN) + SCRIPTS[name] + "\n", encoding="utf-8")


def _run(folder: Path, command: list[str]) -> tuple[str, int, dict[str, bytes]]:
    ran = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=250, check=False
    )
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    code = 128 - ran.returncode if ran.returncode < 0 else ran.returncode  # as a shell shows it
    return ran.stdout, code, files


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="profile is for Linux first")
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_does_not_notice(tmp_path: Path, name: str) -> None:
    _write(tmp_path / "bare", name)
    _write(tmp_path / "watched", name)
    recording = tmp_path / "run.flatout"
    bare = _run(tmp_path / "bare", [sys.executable, "train.py"])
    command = [sys.executable, "-m", "flatout", "profile", "-o", str(recording), "train.py"]
    watched = _run(tmp_path / "watched", command)
    assert watched == bare
    with open_recording(recording) as kept:
        assert kept.ending is not None
        assert kept.ending.outcome == OUTCOMES.get(name, "completed")
        assert kept.ending.exit_code == bare[1]
        if name in STEPS:
            assert len(kept.timed_steps()) == STEPS[name]


@pytest.mark.integration
def test_ctrl_c_reaches_the_script_and_the_recording_survives(tmp_path: Path) -> None:
    script = _TRAIN + "print('ready', flush=True)\nwhile True: train(DataLoader(data, batch_size=8))\n"
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    recording = tmp_path / "run.flatout"
    command = [sys.executable, "-m", "flatout", "profile", "-o", str(recording), "train.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert "a step takes" in errors
    with open_recording(recording) as kept:
        assert kept.ending is not None
        assert kept.ending.outcome == "interrupted"
        assert kept.timed_steps()
