from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from metering import Meter, blocks

from flatout.virtual.kernels import cublas

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

MIB = 1 << 20


@pytest.fixture(autouse=True)
def without_workspaces(machine: Machine) -> Iterator[None]:
    held = dict(machine.workspaces)
    machine.workspaces.clear()
    yield
    machine.workspaces.clear()
    machine.workspaces.update(held)


def test_one_workspace_forward_and_one_in_backward(meter: Meter) -> None:
    a = torch.ones(64, 64, device="cuda", requires_grad=True)
    product = meter(lambda: a @ a)
    assert meter.kept_bytes == blocks(64 * 64 * 4, 8_519_680)
    meter(lambda: a @ a)
    assert meter.kept_bytes == blocks(64 * 64 * 4)
    meter(lambda: torch.autograd.grad(product.sum(), a))
    assert meter.kept_bytes == blocks(64 * 64 * 4, 8_519_680)


def test_no_product_no_workspace(machine: Machine) -> None:
    a = torch.ones(64, 64, device="cuda", requires_grad=True)
    (a * a).sum().backward()
    assert not machine.workspaces


def test_hopper_has_32_mib(on: Callable[[str], None], meter: Meter) -> None:
    on("h100")
    a = torch.ones(64, 64, device="cuda")
    meter(lambda: a @ a)
    assert meter.kept_bytes == blocks(64 * 64 * 4, 32 * MIB)


@pytest.mark.parametrize(
    ("config", "expected"), [(":4096:8", 32 * MIB), (":16:8", 128 << 10), (":4096:2:16:8", 8_519_680), ("", 8_519_680)]
)
def test_configured_size(monkeypatch: pytest.MonkeyPatch, config: str, expected: int) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", config)
    assert cublas.workspace_bytes((8, 0)) == expected


@pytest.mark.parametrize(
    ("version", "unified", "expected"),
    [
        ((2, 6), None, (MIB, False)),
        ((2, 8), None, (MIB, True)),
        ((2, 8), "1", (0, True)),
        ((2, 13), None, (0, True)),
        ((2, 13), "0", (MIB, True)),
    ],
)
def test_workspace_of_cublaslt(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], unified: str | None, expected: tuple[int, bool]
) -> None:
    monkeypatch.delenv("CUBLASLT_WORKSPACE_SIZE", raising=False)
    monkeypatch.setattr(cublas, "torch_version", lambda: version)
    if unified is None:
        monkeypatch.delenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE", raising=False)
    else:
        monkeypatch.setenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE", unified)
    assert cublas.lt_workspace((8, 0)) == expected


def test_newer_gpus_have_32_mib_since_2_12(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(cublas, "torch_version", lambda: (2, 11))
    assert cublas.workspace_bytes((12, 0)) == 8_519_680
    monkeypatch.setattr(cublas, "torch_version", lambda: (2, 12))
    assert cublas.workspace_bytes((12, 0)) == 32 * MIB


def test_a_bias_of_one_dimension_goes_to_cublaslt(machine: Machine) -> None:
    x, w = torch.ones(8, 16, device="cuda"), torch.ones(4, 16, device="cuda")
    F.linear(x, w)
    assert [key[3] for key in machine.workspaces] == ["cublas"]
    F.linear(x, w, torch.ones(4, device="cuda"))
    kept = ["cublas", "lt"] if cublas.lt_workspace((8, 0))[1] else ["cublas"]
    assert [key[3] for key in machine.workspaces] == kept
