from __future__ import annotations

import pytest
from checking import lines

TRAIN = """
import torch
for step, x in enumerate(loader):
    {statement}
    loss = model(x.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "statement",
    [
        "a = torch.tensor(0.5, device='cuda')",
        "a = torch.tensor(min(1.0, step / 100), device='cuda')",
        "a = torch.tensor(step, device='cuda')",
        "a = torch.as_tensor(len(x), device='cuda')",
    ],
)
def test_a_number_goes_over(statement: str) -> None:
    assert lines("FO107", TRAIN.format(statement=statement)) == [3]


@pytest.mark.parametrize(
    "statement",
    [
        "a = torch.full((), 0.5, device='cuda')",
        "a = torch.tensor(0.5)",
        "a = torch.tensor(0.5, device='cpu')",
        "a = torch.tensor([1, 2], device='cuda')",
        "a = torch.tensor(thing, device='cuda')",
        "if step % 100 == 0: a = torch.tensor(0.5, device='cuda')",
    ],
)
def test_what_does_not_or_is_not_known(statement: str) -> None:
    assert lines("FO107", TRAIN.format(statement=statement)) == []


def test_once_at_the_start_is_fine() -> None:
    assert lines("FO107", "import torch\na = torch.tensor(0.5, device='cuda')\n") == []
