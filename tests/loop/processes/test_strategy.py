"""The arithmetic of DDP or FSDP."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flatout.loop.processes.strategy import COPIES, SHARE_FOR_STATES, States, choose_strategy, memory_of, states_bytes

PER_PARAMETER: list[tuple[str, dict[str, Any], int]] = [
    ("SGD", {"lr": 0.1}, 8),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, 12),
    ("Adam", {}, 16),
    ("AdamW", {}, 16),
    ("AdamW", {"amsgrad": True}, 20),
    ("NAdam", {}, 16),
    ("RMSprop", {}, 12),
    ("RMSprop", {"momentum": 0.9, "centered": True}, 20),
    ("Adagrad", {}, 12),
    ("Adadelta", {}, 16),
    ("Adamax", {}, 16),
    ("RAdam", {}, 16),
    ("Rprop", {}, 16),
]


@pytest.mark.parametrize(("name", "options", "expected"), PER_PARAMETER)
def test_bytes_a_parameter_are_what_the_optimizer_really_keeps(
    name: str, options: dict[str, Any], expected: int
) -> None:
    model = nn.Linear(64, 64, bias=False)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    states = states_bytes(model.parameters(), [optimizer])
    assert states.total == expected * 64 * 64
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    kept = sum(
        v.numel() * v.element_size()
        for s in optimizer.state.values()
        for v in s.values()
        if v is not None and v.numel() > 1
    )
    assert states.optimizer == kept


def test_mixed_precision_adds_autocasts_copies() -> None:
    model = nn.Linear(10, 10)
    states = states_bytes(model.parameters(), [torch.optim.Adam(model.parameters())], low_precision=True)
    assert states == States(440, 440, 880, 220)


def test_frozen_shared_and_low_precision_parameters() -> None:
    layer, half = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False, dtype=torch.bfloat16)
    half.requires_grad_(False)
    parameters = [*layer.parameters(), *layer.parameters(), *half.parameters()]
    assert states_bytes(parameters, [], low_precision=True) == States(400 + 200, 400, 800, 200)


def test_every_optimizer_of_pytorch_is_known() -> None:
    kinds = {n for n in vars(torch.optim) if isinstance(getattr(torch.optim, n), type)}
    assert kinds - set(COPIES) <= {"Optimizer", "SparseAdam", "LBFGS"}


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_ddp_as_long_as_half_of_the_memory_is_left(total: int, memory: int) -> None:
    chosen, why = choose_strategy(States(total, 0, 0, 0), memory, 8)
    assert chosen == ("ddp" if total / memory <= SHARE_FOR_STATES else "fsdp")
    assert "GiB" in why


def test_the_numbers_are_said() -> None:
    billions = 7_000_000_000
    states = States(4 * billions, 4 * billions, 8 * billions, 2 * billions)
    chosen, why = choose_strategy(states, 80 * 2**30, 4)
    assert chosen == "fsdp"
    assert why == (
        "the states leave less than half of a device to activations, so 4 share them: weights 26.08 GiB, gradients "
        "26.08 GiB, optimizer 52.15 GiB, autocast's copies 13.04 GiB: 147% of 80.00 GiB"
    )


def test_a_cpu_takes_ddp() -> None:
    assert choose_strategy(States(2**60, 0, 0, 0), memory_of(torch.device("cpu")), 2) == ("ddp", "on a CPU")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_memory_of_a_gpu() -> None:
    assert (memory_of(torch.device("cuda", 0)) or 0) > 2**30
