"""Checkpoints with the virtual GPU's own tensors."""

from __future__ import annotations

import copy
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from flatout.virtual.files import FileGuard

GuardMaker = Callable[..., FileGuard]


@pytest.fixture
def files(machine: Any, guard_maker: GuardMaker) -> FileGuard:
    from flatout.virtual.saving import tensor_ops

    return guard_maker(ops=tensor_ops())


def test_save_best_and_reload(files: FileGuard) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "best.tmp")
    os.replace("best.tmp", "best.pt")
    loaded = torch.load("best.pt", map_location="cuda:0")
    assert loaded["epoch"] == 3
    assert loaded["model"]["0.weight"].device == torch.device("cuda", 0)
    assert loaded["model"]["1.num_batches_tracked"].item() == 3
    fresh = copy.deepcopy(model)
    assert fresh.load_state_dict(loaded["model"]).missing_keys == []
    again = torch.optim.AdamW(fresh.parameters())
    again.load_state_dict(loaded["optimizer"])
    fresh(torch.randn(4, 8, device="cuda")).sum().backward()
    again.step()


@pytest.mark.parametrize(
    "where",
    ["cuda", "cuda:0", torch.device("cuda"), lambda s, _: s.cuda(), None],
    ids=lambda where: getattr(where, "__name__", str(where)),
)
def test_a_real_checkpoint(where: Any, files: FileGuard) -> None:
    state = torch.load("best.pt", map_location=where, weights_only=True)
    expected = "cpu" if where is None else "cuda"
    assert state["w"].device.type == expected
    assert state["w"].tolist() == [7.0] * 4


def test_a_copy_on_the_host_is_written_to_the_store(files: FileGuard) -> None:
    model = nn.Linear(8, 8).cuda()
    model(torch.randn(2, 8, device="cuda")).sum().backward()
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, "best.pt")
    assert set(torch.load("best.pt")) == {"weight", "bias"}
    assert files.report().spared


def test_a_large_model_takes_no_time(files: FileGuard) -> None:
    weights = {f"w{number}": torch.empty(1 << 28, device="cuda") for number in range(4)}  # 4 GiB
    start = time.perf_counter()
    torch.save(weights, "large.pt")
    assert time.perf_counter() - start < 1
    assert os.path.getsize("large.pt") < 10_000
    del weights
    assert torch.load("large.pt")["w3"].numel() == 1 << 28


def test_pickle(files: FileGuard) -> None:
    weight = nn.Parameter(torch.ones(3, device="cuda"))
    again = pickle.loads(pickle.dumps(weight))
    assert type(again) is nn.Parameter
    assert again.device == weight.device


def test_safetensors(files: FileGuard) -> None:
    from safetensors.torch import load_file, load_model, save_file, save_model

    model = nn.Linear(4, 4).cuda()
    save_file(dict(model.state_dict()), "model.safetensors")
    assert load_file("model.safetensors", device="cuda")["weight"].device.type == "cuda"
    assert load_file("model.safetensors")["weight"].device.type == "cpu"
    save_model(model, "model2.safetensors")
    assert load_model(model, "model2.safetensors", device="cuda") == (set(), [])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("fresh_accelerate")
def test_accelerate(files: FileGuard) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(mixed_precision="bf16")
    model = nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for _ in range(2):
        loss = model(torch.randn(4, 8, device="cuda")).pow(2).mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.save_state("state")
    accelerator.load_state("state")
    optimizer.step()
    assert "model.safetensors" in os.listdir("state")
