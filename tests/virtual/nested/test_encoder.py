"""The fast path of ``nn.TransformerEncoder``: a padded batch is packed, and attention takes the lengths."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from metering import Meter, blocks
from torch import nn

from flatout.errors import UnsupportedError
from flatout.virtual.nested.tensors import buffer_of, from_padded, over, to_padded
from flatout.virtual.tensor import allocation_of

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

# PyTorch's own: nested tensors are a prototype.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

BATCH, LENGTH, WIDTH, FEED = 8, 1024, 512, 2048
LENGTHS = (1024, 3, 500, 77, 9, 1, 20, 256)
TOKENS = sum(LENGTHS)


@pytest.fixture
def padding(machine: Machine) -> torch.Tensor:
    lengths = torch.tensor(LENGTHS, device="cuda")
    return torch.arange(LENGTH, device="cuda") >= lengths.unsqueeze(1)


def encoder(dtype: torch.dtype, heads: int = 8, **options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(WIDTH, heads, FEED, batch_first=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that norm_first rules the fast path out
        return nn.TransformerEncoder(layer, 2).to("cuda", dtype).eval()


@pytest.mark.parametrize(
    ("dtype", "heads", "kernel"),
    [
        (torch.float32, 8, "efficient"),
        (torch.float16, 8, "flash"),
        (torch.bfloat16, 8, "flash"),
        (torch.float32, 128, "math"),
        (torch.bfloat16, 128, "math"),
    ],
)
def test_a_padded_batch_is_packed(
    machine: Machine, padding: torch.Tensor, meter: Meter, dtype: torch.dtype, heads: int, kernel: str
) -> None:
    model = encoder(dtype, heads)
    batch = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=dtype)
    with torch.no_grad():
        model(batch, src_key_padding_mask=padding)  # cuBLAS takes its workspace
        machine.facts.clear()
        result = meter(lambda: model(batch, src_key_padding_mask=padding))
    assert (result.shape, result.dtype, result.device) == (batch.shape, dtype, batch.device)
    assert machine.facts["attention_kernels"] == {kernel: 2}
    assert meter.kept_bytes == batch.nbytes
    if kernel != "math":
        # No more than a few tensors for each token that is there, and the result.
        assert meter.peak_bytes < 3 * TOKENS * FEED * batch.element_size() + 3 * batch.nbytes
        assert meter.peak_bytes < BATCH * LENGTH * FEED * batch.element_size()


def test_training_and_other_masks_stay_padded(machine: Machine, padding: torch.Tensor) -> None:
    model = encoder(torch.float32).train()
    batch = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
    model(batch, src_key_padding_mask=padding).sum().backward()
    gap = padding.clone()
    gap[0, 5] = True
    with torch.no_grad():
        assert encoder(torch.float32)(batch, src_key_padding_mask=gap).shape == batch.shape


def test_a_mask_that_nobody_knows_is_not_packed(machine: Machine) -> None:
    batch = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
    unknown = batch[:, :, 0] > 0
    assert allocation_of(unknown).values is None
    with torch.no_grad():
        assert encoder(torch.float32)(batch, src_key_padding_mask=unknown).shape == batch.shape
    with pytest.raises(UnsupportedError, match=r"_nested_tensor_from_mask.*enable_nested_tensor=False"):
        torch._nested_tensor_from_mask(batch, unknown, mask_check=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_there_and_back(machine: Machine, meter: Meter, dtype: torch.dtype) -> None:
    padded = torch.randn(2, 4, 3, device="cuda", dtype=dtype)
    sizes = torch.tensor([[2, 3], [4, 3]])
    nested = meter(lambda: from_padded(padded, sizes))
    assert meter.kept_bytes == blocks(6 * 3 * padded.element_size())
    assert nested.is_nested
    assert nested.is_cuda
    assert torch.equal(nested._nested_tensor_size(), sizes)
    assert buffer_of(nested).shape == (18,)
    assert [one.shape for one in nested.unbind()] == [(2, 3), (4, 3)]
    assert to_padded(nested, 0.0).shape == (2, 4, 3)
    assert nested.to_padded_tensor(0.0, (2, 7, 3)).shape == (2, 7, 3)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        nested.to_padded_tensor(0.0, (2, 3, 3))
    with pytest.raises(RuntimeError, match="Broadcasting is not supported"):
        nested.to_padded_tensor(0.0, (2, 3))


def test_the_buffer_lives_as_long_as_the_nested_tensor(machine: Machine, meter: Meter) -> None:
    nested = meter(lambda: over(torch.ones(512, device="cuda"), torch.tensor([[128, 1], [384, 1]])))
    assert meter.kept_bytes == 2048
    held = [nested]
    del nested
    meter(held.clear)
    assert meter.kept_bytes == -2048


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "aten::mul.Tensor of a nested tensor": lambda x: x * x,
    "aten::clone of a nested tensor": lambda x: x.clone(),
    "torch.nested.nested_tensor": lambda x: torch.nested.nested_tensor([torch.ones(2, 3)], device="cuda"),
    "torch.nested.as_nested_tensor": lambda x: torch.nested.as_nested_tensor([torch.ones(2, 3, device="cuda")]),
    "of a nested tensor": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_by_name(machine: Machine, name: str) -> None:
    nested = over(torch.ones(18, device="cuda"), torch.tensor([[2, 3], [4, 3]]))
    with pytest.raises(UnsupportedError, match=name):
        REFUSED[name](nested)


def test_jagged_tensors_are_python(machine: Machine) -> None:
    parts = [torch.ones(2, 5, device="cuda"), torch.ones(3, 5, device="cuda")]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged, device="cuda")
    assert nn.functional.linear(jagged, torch.ones(4, 5, device="cuda")).values().shape == (5, 4)
