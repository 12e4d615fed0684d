from __future__ import annotations

import pytest
import torch

from flatout.virtual.kernels import attention_choice as choice
from flatout.virtual.kernels import target

MATH, FLASH, EFFICIENT, CUDNN = choice.MATH, choice.FLASH, choice.EFFICIENT, choice.CUDNN


def call(
    dtype: torch.dtype = torch.float16,
    capability: tuple[int, int] = (8, 0),
    shape: tuple[int, ...] = (2, 8, 128, 64),
    key: tuple[int, ...] | None = None,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    grouped: bool = False,
    grad: bool = True,
) -> choice.Call:
    query = torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)
    other = torch.empty(key or shape, dtype=dtype, device="meta")
    return choice.Call(query, other, other, mask, dropout, causal, grouped, capability)


MASK = torch.empty(128, 128, dtype=torch.float16, device="meta")


@pytest.mark.parametrize(
    ("made", "kernel"),
    [
        (call(), FLASH),
        (call(torch.bfloat16), FLASH),
        (call(torch.float32), EFFICIENT),
        (call(torch.float64), MATH),
        (call(capability=(7, 5)), EFFICIENT),
        (call(torch.bfloat16, capability=(7, 5)), MATH),
        (call(torch.float32, capability=(7, 0)), EFFICIENT),
        (call(mask=MASK), EFFICIENT),
        (call(causal=True), FLASH),
        (call(causal=True, key=(2, 8, 64, 64)), EFFICIENT),
        (call(shape=(2, 8, 128, 60)), FLASH),
        (call(torch.float32, shape=(2, 8, 128, 62)), MATH),
        (call(torch.float32, shape=(2, 8, 128, 62), capability=(7, 5)), EFFICIENT),
        (call(shape=(2, 8, 128, 264)), EFFICIENT),
        (call(shape=(2, 8, 128, 224), capability=(8, 6)), EFFICIENT),
        (call(shape=(2, 8, 128, 224), capability=(8, 6), grad=False), FLASH),
        (call(shape=(2, 8, 128, 256), capability=(8, 9)), FLASH),
        (call(shape=(2, 8, 128, 256), capability=(8, 9), dropout=0.1), EFFICIENT),
        (call(key=(2, 2, 128, 64), grouped=True), FLASH),
        (call(torch.float32, key=(2, 2, 128, 64), grouped=True), MATH),
        (call(shape=(8, 128, 64)), MATH),
        (call(shape=(2, 8, 0, 64)), MATH),
    ],
)
def test_choice(made: choice.Call, kernel: int) -> None:
    assert choice.choose(made) == kernel


def test_transposed_head_size_goes_to_mathematics() -> None:
    query = torch.empty(2, 8, 64, 128, dtype=torch.float16, device="meta").transpose(2, 3)
    assert choice.choose(choice.Call(query, query, query, None, 0.0, False, False, (8, 0))) == MATH


def test_the_script_switches_kernels_off() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert choice.choose(call()) == EFFICIENT
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available kernel"):
        choice.choose(call(torch.float32))


def test_the_script_sets_an_order() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        chosen = sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True)
    except TypeError:
        pytest.skip("this PyTorch has no order to set")
    with chosen:
        assert choice.choose(call()) == MATH


@pytest.mark.parametrize(
    ("version", "cudnn", "cuda", "capability", "first"),
    [
        ((2, 6), 90100, (12, 4), (9, 0), False),
        ((2, 7), 90501, (12, 6), (9, 0), False),
        ((2, 8), 91002, (12, 8), (9, 0), True),
        ((2, 9), 91002, (12, 8), (8, 0), False),
        ((2, 10), 91002, (12, 8), (9, 0), False),
        ((2, 11), 91900, (13, 0), (9, 0), True),
        ((2, 11), 91900, (13, 0), (10, 0), True),
        ((2, 11), 91900, (13, 0), (12, 0), False),
    ],
)
def test_when_cudnn_comes_first(
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int],
    cudnn: int,
    cuda: tuple[int, int],
    capability: tuple[int, int],
    first: bool,
) -> None:
    monkeypatch.setattr(choice, "torch_version", lambda: version)
    monkeypatch.setattr(choice, "cudnn_version", lambda: cudnn)
    monkeypatch.setattr(choice, "cuda_version", lambda: cuda)
    assert choice.prefers_cudnn(capability) is first


def test_versions_are_known() -> None:
    assert target.torch_version() >= (2, 6)
    assert 90000 < target.cudnn_version() < 100000
    assert target.cuda_version() >= (11, 8)
