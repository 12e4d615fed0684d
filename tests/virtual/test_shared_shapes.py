"""What an evaluation leaves behind must not disturb the training after it; whose generator draws for whose memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flatout.virtual.tensor import is_virtual

pytestmark = pytest.mark.usefixtures("machine")


def test_a_shape_first_seen_in_inference_mode_can_be_written_outside_of_it() -> None:
    size = (3, 5, 7, 11, 13)  # seen nowhere else
    with torch.inference_mode():
        torch.randn(size, device="cuda").add_(1)
    x = torch.randn(size, device="cuda")
    x.mul_(2)
    torch._foreach_mul_([x], torch.ones((), device="cuda"))


class Projection(nn.Module):
    """Draws its weight from a generator of its own, as some adapters do to need no copy of it in a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        drawn = nn.init.kaiming_uniform_(torch.empty(1024, 1024), generator=torch.Generator().manual_seed(0))
        self.weight = nn.Parameter(drawn)


def test_host_memory_that_is_not_there_takes_the_hosts_generator() -> None:
    weight = Projection().weight.detach()
    assert is_virtual(weight)
    assert weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        weight.cuda().uniform_(-1, 1, generator=torch.Generator())


class Hybrid(nn.Module):
    """Runs its own first layers while it builds itself, on weights that are not there, to learn what size comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(512, 512, 3)
        with torch.no_grad():
            self.pixels = self.first(torch.zeros(1, 512, 64, 64)).shape[-1]


def test_a_module_may_run_a_convolution_while_it_builds_itself() -> None:
    model = Hybrid()
    assert model.pixels == 62
    assert is_virtual(model.first.weight)
