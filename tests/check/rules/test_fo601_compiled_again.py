from __future__ import annotations

import pytest
from checking import hits, lines

IMPORT = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
LOOP = IMPORT + (
    "def train(model, loader, optimizer):\n"
    "    for step, x in enumerate(loader):\n"
    "        {step}\n"
    "        loss = model(x)\n"
    "        loss.backward()\n"
    "        optimizer.step()\n"
)
LAYER = IMPORT + "class Net(nn.Module):\n    def forward(self, x):\n        {body}\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (LOOP.format(step="fast = torch.compile(model)"), 6),
        (LAYER.format(body="return torch.compile(F.relu)(x)"), 6),
        (LAYER.format(body="@torch.compile\n        def inner(v):\n            return v\n        return inner(x)"), 6),
    ],
)
def test_every_step(source: str, line: int) -> None:
    (hit,) = hits("FO601", source)
    assert hit.node.lineno == line
    assert "makes a new wrapper" in hit.message


def test_a_model_that_is_compiled_again_each_epoch() -> None:
    (hit,) = hits(
        "FO601", IMPORT + "model = Net()\nfor epoch in range(9):\n    model = torch.compile(model)\n    run(model)\n"
    )
    assert hit.severity == "high"
    assert "the second round of the loop compiles `model` again" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        IMPORT + "model = torch.compile(model)\n",
        IMPORT + "model = torch.compile(model)\n" + LOOP.format(step="pass"),
        LOOP.format(step="if fast is None:\n            fast = torch.compile(model)"),
        LOOP.format(step="fast = torch.compile(models[step])"),
        LAYER.format(body="if self.fast is None: self.fast = torch.compile(self.run)"),
        IMPORT + "for model in models:\n    model = torch.compile(model)\n    run(model)\n",
        IMPORT + "for mode in modes:\n    fast = torch.compile(model, mode=mode)\n    time(fast)\n",
        IMPORT + "for epoch in range(9):\n    if epoch == 2:\n        model = torch.compile(model)\n",
        IMPORT + "import re\n" + LOOP.format(step="pattern = re.compile('a')"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO601", source) == []


def test_what_it_does() -> None:
    """The page's claim: a model that is compiled twice is a model no more."""
    import torch

    once = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    assert hasattr(once, "parameters")
    assert not hasattr(torch.compile(once, backend="eager"), "parameters")
