"""Naming devices, and making tensors on them."""

from __future__ import annotations

import pickle

import numpy
import pytest
import torch

pytestmark = pytest.mark.usefixtures("machine")


def test_a_number_names_a_gpu() -> None:
    assert torch.device(0) == torch.device("cuda", 0)
    assert isinstance(torch.device("cpu"), torch.device)
    assert pickle.loads(pickle.dumps(torch.device("cuda:0"))) == torch.device("cuda", 0)
    assert pickle.loads(pickle.dumps(torch.device)) is torch.device
    with pytest.raises(RuntimeError, match="Expected one of"):
        torch.device("nonsense")


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda", 0)])
def test_every_name_of_the_gpu_works_everywhere(device: object) -> None:
    made = [
        torch.tensor([1.0, 2.0], device=device),
        torch.as_tensor(numpy.ones(3), device=device),
        torch.zeros(2, device=device),
        torch.randn(2, device=device),
        torch.arange(3, device=device),
        torch.ones(2).to(device),
        torch.ones(2).new_zeros(3, device=device),
        torch.zeros_like(torch.ones(2), device=device),
    ]
    assert {x.device for x in made} == {torch.device("cuda", 0)}


def test_data_keeps_its_values_and_dtype() -> None:
    assert torch.tensor([1, 2], device="cuda").tolist() == [1, 2]
    assert torch.tensor(3.5, device="cuda").item() == 3.5
    x = torch.ones(2, device="cuda", dtype=torch.float64)
    assert x.new_tensor([1, 2]).dtype is torch.float64
    assert torch.tensor([1.0], device="cuda", requires_grad=True).is_leaf
    assert torch.asarray([1, 2], device="cuda").device.type == "cuda"


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_device_and_context() -> None:
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda
        x = torch.tensor([1.0])
        assert x.is_cuda
        assert x.device == torch.device("cuda", 0)
    torch.set_default_device("cuda")
    try:
        assert torch.nn.Linear(2, 2).weight.is_cuda
        assert torch.as_tensor([1]).is_cuda
        assert not torch.zeros(1, device="cpu").is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.zeros(1).is_cuda
    assert torch.get_default_device() == torch.device("cpu")
    assert not torch.nn.LSTM(2, 2).weight_ih_l0.is_cuda


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_no_default_device_by_none_is_the_cpu() -> None:
    torch.set_default_device(None)  # PyTorch 2.6 cannot be asked for the default device from here on
    try:
        assert not torch.nn.LSTM(2, 2).weight_ih_l0.is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def test_like_on_another_device() -> None:
    x = torch.ones(2, device="cuda")
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"
    assert x.new_zeros(2, device="cpu").device.type == "cpu"
    assert torch.zeros_like(x, device="meta").is_meta


def test_a_scripts_own_meta_tensors_are_not_gpu_memory() -> None:
    before = torch.cuda.memory_allocated()
    with torch.device("meta"):
        model = torch.nn.Linear(64, 64)
    assert model.weight.is_meta
    assert torch.cuda.memory_allocated() == before
    model.to_empty(device="cuda")
    assert model.weight.device == torch.device("cuda", 0)


def test_changes_of_shape_in_place() -> None:
    x = torch.ones(2, 3, device="cuda")
    assert x.t_().shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.squeeze_(0).shape == (3, 2)
    assert x.transpose_(0, 1).shape == (2, 3)


def test_legacy_types() -> None:
    x = torch.zeros(2, device="cuda")
    assert x.type() == "torch.cuda.FloatTensor"
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
    assert not isinstance(x, torch.cuda.HalfTensor)
    assert torch.ones(2).type("torch.cuda.HalfTensor").dtype is torch.float16
    assert torch.ones(2).type(torch.cuda.LongTensor).is_cuda
    assert x.type("torch.FloatTensor").device.type == "cpu"
    assert torch.cuda.FloatTensor(3).shape == (3,)
    assert torch.ones(2).type_as(x).is_cuda
