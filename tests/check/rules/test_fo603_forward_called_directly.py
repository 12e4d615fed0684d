from __future__ import annotations

import pytest
from checking import fixed, hits, lines

LOOP = """\
import torch
from torch import nn

{setup}
for x, y in loader:
    out = model.forward(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
"""


def test_in_training() -> None:
    (hit,) = hits("FO603", LOOP.format(setup="model = Net()"))
    assert hit.node.lineno == 6
    assert hit.severity is None
    assert hit.message == "`model.forward(...)` runs `model` without its hooks, which calling it runs"


@pytest.mark.parametrize(
    ("setup", "what"),
    [
        ("model.compile()", "the compiled code that `model.compile()` made"),
        ("fully_shard(model)", "the hooks that gather its sharded parameters"),
        ("model = nn.utils.spectral_norm(nn.Linear(2, 2))", "the weight that a hook computes anew"),
        ("model.fc.register_forward_hook(keep)", "the hooks that it is given in this file"),
    ],
)
def test_what_is_left_out(setup: str, what: str) -> None:
    (hit,) = hits("FO603", LOOP.format(setup=setup))
    assert what in hit.message


def test_the_fix() -> None:
    assert "    out = model(x)\n" in fixed("FO603", LOOP.format(setup="# .forward("))


@pytest.mark.parametrize(
    "source",
    [
        "from torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n        return super().forward(x)\n",
        "from torch import nn\nclass A(nn.Module):\n    def run(self, x):\n        return self.model.forward(x)\n",
        "model = Net()\nout = model.forward(x)\n",  # once, and nothing is known to hang on the call
        LOOP.format(setup="").replace("model.forward", "stage.forward"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO603", source) == []


def test_what_it_does() -> None:
    """The page's claim: the weight that the hook computes is an old one."""
    import torch

    layer = torch.nn.utils.spectral_norm(torch.nn.Linear(4, 4))
    x = torch.ones(1, 4)
    assert not torch.allclose(layer.forward(x), layer(x))
