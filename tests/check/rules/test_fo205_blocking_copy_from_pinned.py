from __future__ import annotations

from textwrap import dedent

import pytest
from checking import fixed, hits, lines

LOADER = """
import torch
from torch.utils.data import DataLoader
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def train(model, loader, optimizer, device):
    for i, batch in enumerate(loader):
        {statement}
loader = DataLoader(ds, pin_memory={pin})
train(model, loader, optimizer, device)
"""


@pytest.mark.parametrize(
    "statement",
    [
        "x, y = batch; x = x.to(device)",
        "x = batch[0].cuda()",
        "x = batch['image'].to(device)",
        "batch = {k: v.to(device) for k, v in batch.items()}",
        "batch = [t.to(device) for t in batch]",
    ],
)
@pytest.mark.parametrize("pin", ["True", "torch.cuda.is_available()"])
def test_pinned_batches(statement: str, pin: str) -> None:
    assert lines("FO205", LOADER.format(statement=statement, pin=pin)) == [6]


@pytest.mark.parametrize(
    "statement",
    [
        "x = batch[0].to(device, non_blocking=True)",
        "x = batch[0].to(device, non_blocking=flag)",
        "x = batch[0].to(torch.float16)",
        "x = batch[0].to('cpu')",
        "x = batch[0].to(device, torch.float16)",  # cast on the CPU first, into memory that is not pinned
        "x = batch[0].float().to(device)",
        "x = torch.zeros(3).to(device)",
        "model = model.to(device)",
    ],
)
def test_what_looks_like_it_but_is_fine(statement: str) -> None:
    assert lines("FO205", LOADER.format(statement=statement, pin="True")) == []


@pytest.mark.parametrize("pin", ["False", "flag"])
def test_batches_not_known_to_be_pinned(pin: str) -> None:
    assert lines("FO205", LOADER.format(statement="x = batch[0].to(device)", pin=pin)) == []


def test_one_message_a_statement() -> None:
    source = LOADER.format(statement="x, y = batch[0].to(device), batch[1].to(device)", pin="True")
    (hit,) = hits("FO205", source)
    assert hit.message.startswith("`batch[0]` and `batch[1]` come pinned from the DataLoader on line 7, and ")
    text = fixed("FO205", source)
    assert "x, y = batch[0].to(device, non_blocking=True), batch[1].to(device, non_blocking=True)" in text


def test_the_fix_gives_the_same_values() -> None:
    source = """
        import torch
        from torch.utils.data import DataLoader
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        sums = []
        for x in DataLoader(torch.arange(6.0), batch_size=2, pin_memory=torch.cuda.is_available()):
            sums.append(x.to(device).sum().item())
    """
    text = fixed("FO205", source)
    assert "x.to(device, non_blocking=True)" in text
    for code in (dedent(source), text):
        names: dict[str, object] = {}
        exec(code, names)
        assert names["sums"] == [1.0, 5.0, 9.0]
