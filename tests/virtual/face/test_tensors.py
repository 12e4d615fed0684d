"""Tensors as a script sees them."""

from __future__ import annotations

import copy
import threading

import numpy
import pytest
import torch
from torch import nn

from flatout.virtual.tensor import allocation_of

pytestmark = pytest.mark.usefixtures("machine")


def test_gpu_memory_has_no_numpy_view() -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        numpy.asarray(x)
    assert x.cpu().numpy().tolist() == [1, 1, 1]
    assert x.numpy(force=True).tolist() == [1, 1, 1]


def test_printing() -> None:
    assert repr(torch.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"
    assert "device='cuda:0', requires_grad=True" in repr(torch.ones(1, device="cuda", requires_grad=True))
    assert f"{torch.ones((), device='cuda'):.2f}" == "1.00"
    assert "..." in repr(torch.empty(1 << 20, device="cuda"))


def test_pointers_are_distinct_and_inside_their_block() -> None:
    x, y = torch.ones(300, device="cuda"), torch.ones(300, device="cuda")
    assert x.data_ptr() != y.data_ptr()
    assert x[5:].data_ptr() == x.data_ptr() + 20
    assert x.untyped_storage().data_ptr() == x.data_ptr()
    assert x.__cuda_array_interface__["data"][0] == x.data_ptr()
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


def test_pinned_memory() -> None:
    x = torch.ones(3)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.empty(3, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match=r"cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="cuda", pin_memory=True)


def test_copies_are_deep_and_ties_stay() -> None:
    model = nn.Module()
    model.a = nn.Embedding(10, 4)
    model.b = nn.Linear(4, 10, bias=False)
    model.b.weight = model.a.weight
    model.cuda()
    other = copy.deepcopy(model)
    assert other.a.weight is other.b.weight
    assert isinstance(other.a.weight, nn.Parameter)
    assert other.a.weight.data_ptr() != model.a.weight.data_ptr()


def test_gpu_memory_is_always_shared() -> None:
    x = torch.ones(2, device="cuda")
    assert x.share_memory_() is x
    assert x.is_shared()


def test_what_modules_hold_are_parameters() -> None:
    model = nn.BatchNorm1d(4).cuda()
    for tensor in (*model.parameters(), *model.buffers(), nn.Linear(2, 2, device="cuda").weight):
        assert allocation_of(tensor).record.category == "parameters"


def test_lazy_modules() -> None:
    assert nn.LazyLinear(4).cuda()(torch.randn(2, 3, device="cuda")).shape == (2, 4)


def test_methods_keep_their_names_for_modes() -> None:
    from torch.overrides import TorchFunctionMode

    seen = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
            seen.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Names():
        y = x.to("cuda")
        assert y.device == torch.device("cuda", 0)
        assert (y + 1).is_cuda
    assert {"to", "add"} <= set(seen)


def test_grouping_by_device_names_the_gpu() -> None:
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    x = torch.ones(2, device="cuda")
    assert set(_group_tensors_by_device_and_dtype([[x]])) == {(torch.device("cuda", 0), torch.float32)}


def test_threads_use_the_gpu() -> None:
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(torch.randn(4, 4, device="cuda") @ torch.ones(4, 4).cuda()))
    thread.start()
    thread.join()
    assert made[0].is_cuda


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_function_transforms_give_the_cpus_shapes() -> None:
    from torch.func import functional_call, grad, hessian, jacrev, vmap

    def shapes(device: str) -> list[object]:
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(device)
        x = torch.ones(16, 8, device=device)
        parameters = dict(model.named_parameters())

        def loss(p: dict[str, torch.Tensor], v: torch.Tensor) -> torch.Tensor:
            return functional_call(model, p, (v,)).pow(2).mean()

        samples = vmap(grad(loss), (None, 0))(parameters, x)
        return [
            vmap(model)(x).shape,
            vmap(lambda v: torch.softmax(v, 0))(x).shape,
            {name: value.shape for name, value in samples.items()},
            jacrev(model)(x[0]).shape,
            hessian(lambda v: model(v).sum())(x[0]).shape,
        ]

    assert shapes("cuda") == shapes("cpu")


def test_what_comes_from_the_host_is_an_input_and_what_a_module_takes_a_parameter() -> None:
    x = torch.ones(4, 3).cuda()
    assert allocation_of(x).record.category == "inputs"
    assert allocation_of(nn.Linear(3, 3).cuda().weight).record.category == "parameters"
    assert allocation_of(nn.Parameter(torch.ones(2).cuda())).record.category == "parameters"
