"""Which other GPUs a run stands for: those that answer alike whatever was decided by what the GPU is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from flatout.gpu import all_gpus
from flatout.virtual.alike import Alike
from flatout.virtual.machine import Machine

Capability = tuple[int, int]


@pytest.fixture
def left(machine: Machine) -> Iterator[Callable[[], set[Capability]]]:
    """The capabilities that are left; the run is on an A100 (8.0)."""
    machine.alike = Alike(all_gpus())
    yield machine.alike.capabilities
    machine.alike = Alike()


def where(test: Callable[[Capability], bool]) -> set[Capability]:
    return {gpu.compute_capability for gpu in all_gpus() if test(gpu.compute_capability)}


def test_other_answers_drop_out() -> None:
    alike = Alike(all_gpus())
    assert alike.by_capability(lambda one: one[0], 8) == 8
    assert alike.capabilities() == where(lambda one: one[0] == 8)
    assert alike.labels() == sorted(gpu.label for gpu in all_gpus() if gpu.compute_capability[0] == 8)


def test_what_fails_elsewhere_is_another_path() -> None:
    def answer(capability: Capability) -> int:
        if capability < (7, 0):
            raise RuntimeError("no kernel image is available")
        return 1

    alike = Alike(all_gpus())
    alike.by_capability(answer, 1)
    assert alike.capabilities() == where(lambda one: one >= (7, 0))


def test_nothing_is_asked_where_there_are_no_others() -> None:
    asked: list[Capability] = []
    assert Alike().by_capability(asked.append, None) is None
    assert asked == []


def test_starting_cuda_decides_nothing(left: Callable[[], set[Capability]]) -> None:
    torch.ones(3, device="cuda").add_(1)
    assert left() == where(lambda one: True)


def test_the_workspace_of_products(left: Callable[[], set[Capability]]) -> None:
    ones = torch.ones(8, 8, device="cuda")
    ones @ ones
    assert (7, 5) in left()
    assert (8, 9) in left()
    assert (9, 0) not in left()


def test_tensor_cores_of_convolutions(left: Callable[[], set[Capability]]) -> None:
    images = torch.ones(2, 3, 8, 8, device="cuda", dtype=torch.half)
    torch.nn.functional.conv2d(images, torch.ones(4, 3, 3, 3, device="cuda", dtype=torch.half))
    assert left() == where(lambda one: one >= (7, 0))


def test_the_kernel_of_attention(left: Callable[[], set[Capability]]) -> None:
    heads = torch.ones(2, 4, 16, 32, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    assert where(lambda one: (8, 0) <= one < (9, 0)) <= left()
    assert left() <= where(lambda one: one >= (8, 0))


@pytest.mark.parametrize(
    ("ask", "same"),
    [
        (torch.cuda.get_device_capability, lambda one: one == (8, 0)),
        (lambda: torch.cuda.get_device_properties(0).major, lambda one: one[0] == 8),
        (lambda: torch.cuda.is_bf16_supported(including_emulation=False), lambda one: one >= (8, 0)),
        (lambda: torch.cuda.is_bf16_supported(), lambda one: True),
        (lambda: repr(torch.cuda.get_device_properties(0)), lambda one: True),
        (torch.cuda.get_device_name, lambda one: True),
        (lambda: torch.cuda.get_device_properties(0).total_memory, lambda one: True),
    ],
)
def test_what_the_script_asks(
    left: Callable[[], set[Capability]], ask: Callable[[], object], same: Callable[[Capability], bool]
) -> None:
    ask()
    assert left() == where(same)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (torch.cuda.get_device_name, "name"),
        (lambda: torch.cuda.get_device_properties(0).total_memory, "memory"),
        (lambda: torch.cuda.get_device_properties(0).multi_processor_count, "multiprocessors"),
    ],
)
@pytest.mark.parametrize("others", [True, False])
def test_what_each_gpu_answers_otherwise_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object], what: str, others: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(machine, "assume_that", said.append)
    monkeypatch.setattr(machine, "alike", Alike(all_gpus() if others else ()))
    ask()
    assert said == ([f"what hangs on the GPU's {what} is as on the GPU that the script ran on"] if others else [])
