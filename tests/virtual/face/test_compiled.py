"""torch.compile, tracing and exporting."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flatout.errors import UnsupportedError

pytestmark = [pytest.mark.usefixtures("machine"), pytest.mark.filterwarnings("ignore")]


def test_compiled_modules_look_compiled_and_run() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU()).cuda()
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert compiled._orig_mod is model
    assert all(name.startswith("_orig_mod.") for name in compiled.state_dict())
    compiled(torch.randn(4, 8, device="cuda")).sum().backward()
    assert model[0].weight.grad is not None
    torch._dynamo.reset()


def test_compiled_functions_and_methods() -> None:
    @torch.compile(dynamic=True)
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert double(torch.ones(2, device="cuda")).tolist() == [2, 2]
    model = nn.Linear(2, 2).cuda()
    model.compile()
    assert model(torch.ones(1, 2, device="cuda")).shape == (1, 2)


def test_options_are_validated_as_before() -> None:
    with pytest.raises(RuntimeError, match="Unrecognized mode=nonsense"):
        torch.compile(nn.Linear(2, 2), mode="nonsense")
    with pytest.raises(Exception, match="Invalid backend"):
        torch.compile(nn.Linear(2, 2), backend="nonsense")


def test_export_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"torch\.export\.export is not supported on the virtual GPU"):
        torch.export.export(nn.Linear(2, 2).cuda(), (torch.ones(1, 2, device="cuda"),))


def test_jit() -> None:
    model, x = nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda")
    assert torch.jit.script(model)(x).shape == (1, 2)
    assert torch.jit.trace(model, x)(x).shape == (1, 2)
