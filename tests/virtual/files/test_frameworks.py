"""Frameworks that write checkpoints in their own ways."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from flatout.virtual.files import FileGuard, taint

GuardMaker = Callable[..., FileGuard]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("fresh_accelerate")
def test_accelerate_saves_and_loads_its_state(project: Path, guard_maker: GuardMaker) -> None:
    accelerate = pytest.importorskip("accelerate")
    guard_maker()
    accelerator = accelerate.Accelerator(cpu=True)
    model = nn.Linear(2, 2)
    model, _ = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    taint()
    for _ in range(2):
        accelerator.save_state("runs/checkpoint-1")
    with torch.no_grad():
        model.weight.zero_()
    accelerator.load_state("runs/checkpoint-1")
    assert model.weight.abs().sum() > 0
    assert "model.safetensors" in os.listdir("runs/checkpoint-1")


@pytest.mark.filterwarnings("ignore")
def test_transformers_saves_rotates_and_resumes(project: Path, guard_maker: GuardMaker) -> None:
    transformers = pytest.importorskip("transformers")
    guard = guard_maker()
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=8)
    )
    taint()
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 8

    def trainer(steps: int) -> object:
        arguments = transformers.TrainingArguments(
            "runs", max_steps=steps, save_steps=1, save_total_limit=1, report_to=[], use_cpu=True,
            per_device_train_batch_size=2, disable_tqdm=True,
        )  # fmt: skip
        return transformers.Trainer(model, arguments, train_dataset=data)

    trainer(3).train()
    assert [name for name in os.listdir("runs") if name.startswith("checkpoint")] == ["checkpoint-3"]
    trainer(4).train(resume_from_checkpoint=True)
    model.save_pretrained("runs/final")
    again = transformers.GPT2LMHeadModel.from_pretrained("runs/final")
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)
    guard.uninstall()
    assert sorted(os.listdir("runs")) == ["checkpoint-1", "checkpoint-2"]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard(project: Path, guard: FileGuard) -> None:
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("runs/board") as writer:
        writer.add_scalar("loss", 1.0, 0)
        taint()
        writer.add_scalar("loss", 2.0, 1)
    assert os.listdir("runs/board")
    guard.uninstall()
    assert not os.path.exists("runs/board")


@pytest.mark.filterwarnings("ignore")
def test_distributed_checkpoint(project: Path, guard: FileGuard) -> None:
    import torch.distributed.checkpoint as dcp

    taint()
    state = {"w": torch.ones(3)}
    alone = {"no_dist": True} if "no_dist" in inspect.signature(dcp.save).parameters else {}  # 2.6 finds out by itself
    dcp.save(state, checkpoint_id="runs/checkpoint-1", **alone)
    loaded = {"w": torch.zeros(3)}
    dcp.load(loaded, checkpoint_id="runs/checkpoint-1", **alone)
    assert loaded["w"].sum() == 3


@pytest.mark.filterwarnings("ignore")
def test_h5py(project: Path, guard_maker: GuardMaker) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("data.h5", "w") as file:
        file["x"] = [1, 2]
    before = Path("data.h5").read_bytes()
    guard = guard_maker()
    taint()
    with h5py.File("data.h5", "a") as file:
        file["y"] = [3]
    with h5py.File("data.h5") as file:
        assert sorted(file) == ["x", "y"]
    guard.uninstall()
    assert Path("data.h5").read_bytes() == before
