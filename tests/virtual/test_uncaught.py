"""Messages that C++ puts together out of Python's reach: in the words of a GPU where a script ends by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from flatout.virtual.cuda_errors import put_right, shown_for
from flatout.virtual.machine import Machine


def gpu(*size: int) -> torch.Tensor:
    return torch.randn(*size, device="cuda")


def scripted() -> object:
    return torch.jit.script(torch.nn.Linear(2, 2).cuda())(torch.randn(1, 2))


UNCAUGHT = {
    "expand": (
        lambda: gpu(2, 2).expand(3),
        "expand(torch.cuda.FloatTensor{[2, 2]}, size=[3]): the number of sizes provided (1) must be greater or equal to"
        " the number of dimensions in the tensor (2)",
    ),
    "expand, bfloat16": (
        lambda: gpu(2, 2).bfloat16().expand(3),
        "expand(CUDABFloat16Type{[2, 2]}, size=[3]): the number of sizes provided (1) must be greater or equal to"
        " the number of dimensions in the tensor (2)",
    ),
    "set_": (
        lambda: gpu(2).set_(torch.randn(2)),
        'Attempted to set the storage of a tensor on device "cuda:0" to a storage on different device "cpu".  This is'
        " no longer allowed; the devices must match.",
    ),
}


@pytest.mark.parametrize(("mistake", "text"), UNCAUGHT.values(), ids=UNCAUGHT)
def test_put_right(mistake: Callable[[], object], text: str, booted: Machine) -> None:
    with pytest.raises(RuntimeError) as caught:
        mistake()
    put_right(caught.value)
    assert str(caught.value) == text


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated")
def test_a_failure_in_torchscript_does_not_quote_flatout(booted: Machine) -> None:
    with pytest.raises(RuntimeError, match="TorchScript interpreter") as caught:
        scripted()
    put_right(caught.value)
    end = str(caught.value).splitlines()[-1]
    assert "flatout" not in str(caught.value)
    assert end.startswith("RuntimeError: Expected all tensors to be on the same device")


def test_what_an_error_came_from_is_put_right_too() -> None:
    error = ValueError("a batch failed")
    error.__cause__ = first = RuntimeError("no room on meta:1", 7)
    first.__context__ = error  # however tangled
    put_right(error)
    assert error.args == ("a batch failed",)
    assert first.args == ("no room on cuda:0", 7)


def test_other_errors_are_left_alone() -> None:
    for error in (KeyError(1), ValueError(), OSError(2, "no such file", "meta"), RuntimeError("meta is a fine name")):
        before = error.args
        put_right(error)
        assert error.args is before


def test_a_type_without_index_is_the_gpu_only_among_its_own_tensors(booted: Machine) -> None:
    text = "a gradient with device type 'cpu' to a tensor with device type 'meta'"
    assert shown_for(text, [gpu(1), torch.randn(1)]).endswith("device type 'cuda'")
    assert shown_for(text, [torch.empty(1, device="meta"), torch.randn(1)]) == text
    assert shown_for(text, [torch.empty(1, device="meta"), gpu(1)]) == text
    assert shown_for(text, [torch.randn(1)]) == text
