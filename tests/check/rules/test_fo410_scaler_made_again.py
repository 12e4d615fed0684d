from __future__ import annotations

import pytest
from checking import hits, lines

STEP = "scaler.scale(model(x)).backward(); scaler.step(optimizer); scaler.update()"


def test_each_epoch_and_each_step() -> None:
    source = (
        "import torch\n"
        "for epoch in range(10):\n    {epoch}\n    for x in loader:\n        {step}\n        " + STEP + "\n"
    )
    made = 'scaler = torch.amp.GradScaler("cuda")'
    (hit,) = hits("FO410", source.format(epoch=made, step="pass"))
    assert hit.node.lineno == 3
    assert "each epoch (the loop in line 2)" in hit.message
    (hit,) = hits("FO410", source.format(epoch="pass", step=made))
    assert hit.node.lineno == 5
    assert "each step (the loop in line 4)" in hit.message


EPOCHS = """
import torch

def train_one_epoch(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x)).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader, optimizer):
    {call}
"""


def test_in_a_function_that_is_called_each_epoch() -> None:
    call = "for epoch in range(10):\n        train_one_epoch(model, loader, optimizer)"
    assert lines("FO410", EPOCHS.format(call=call)) == [4]


@pytest.mark.parametrize(
    "source",
    [
        EPOCHS.format(call="train_one_epoch(model, loader, optimizer)"),
        f'import torch\nscaler = torch.amp.GradScaler("cuda")\nfor x in loader:\n    {STEP}\n',
        "import torch\nfor lr in (0.1, 0.2):\n    optimizer = torch.optim.SGD(model.parameters(), lr)\n"
        f'    scaler = torch.amp.GradScaler("cuda")\n    for x in loader:\n        {STEP}\n',
        'import torch\nfor name in ("a", "b"):\n    scalers[name] = torch.amp.GradScaler("cuda")\n',
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO410", source) == []
