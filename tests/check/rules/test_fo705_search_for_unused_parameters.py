from __future__ import annotations

import pytest
from checking import fixed, hits, lines

IMPORT = """\
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
    def forward(self, x, flag=True):
        return self.second(self.first(x))
"""
WRAP = "model = DDP(model, device_ids=[rank], find_unused_parameters=True)\n"


@pytest.mark.parametrize(
    "source",
    [
        IMPORT + "model = torchvision.models.resnet50().cuda()\n" + WRAP,
        IMPORT + "model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\n" + WRAP,
        IMPORT + NET + "model = Net()\n" + WRAP,
    ],
)
def test_found(source: str) -> None:
    (hit,) = hits("FO705", source)
    assert "`model` uses all its parameters" in hit.message
    assert hit.node.lineno == source.count("\n")


def test_the_fix() -> None:
    source = IMPORT + "# find_unused_parameters\nmodel = torchvision.models.resnet50()\n" + WRAP
    assert fixed("FO705", source).endswith("model = DDP(model, device_ids=[rank])\n")


@pytest.mark.parametrize(
    "source",
    [
        IMPORT + "model = build(args)\n" + WRAP,
        IMPORT + "model = torchvision.models.inception_v3()\n" + WRAP,  # an auxiliary head
        IMPORT + "model = torchvision.models.resnet50()\nmodel.fc.requires_grad_(False)\n" + WRAP,
        IMPORT + NET.replace("self.second(self.first(x))", "self.first(x)") + "model = Net()\n" + WRAP,
        IMPORT + NET.replace("return", "if flag:\n            return x\n        return") + "model = Net()\n" + WRAP,
        IMPORT + "model = torchvision.models.resnet50()\n" + WRAP.replace("True", "args.find"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO705", source) == []
