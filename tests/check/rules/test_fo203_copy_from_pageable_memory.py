from __future__ import annotations

import pytest
from checking import fixed, hits, lines

LOADER = """
import torch
from torch.utils.data import DataLoader
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(ds, batch_size=4, {options})
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
"""


@pytest.mark.parametrize("options", ["", "pin_memory=False", "num_workers=4"])
def test_a_loader_that_does_not_pin(options: str) -> None:
    (hit,) = hits("FO203", LOADER.format(options=options))
    assert hit.node.lineno == 6
    assert "`x` and `y` are not in pinned memory (the DataLoader on line 4 has no `pin_memory=True`)" in hit.message


def test_one_message_a_loader() -> None:
    assert lines("FO203", LOADER.format(options="") + "    x = x.cuda(non_blocking=True)\n") == [6]


@pytest.mark.parametrize("options", ["pin_memory=True", "pin_memory=flag", "**options", "collate_fn=mine"])
def test_pinned_or_not_known(options: str) -> None:
    assert lines("FO203", LOADER.format(options=options)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "x = torch.from_numpy(a).to('cuda', non_blocking=True)",
        "t = torch.zeros(3)\nx = t.to('cuda', non_blocking=True)",
    ],
)
def test_tensors_made_here(statement: str) -> None:
    assert len(lines("FO203", "import torch\n" + statement)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "x = torch.tensor([1, 2]).pin_memory().cuda(non_blocking=True)",
        "x = torch.zeros(3, pin_memory=True).cuda(non_blocking=True)",
        "x = torch.zeros(3).cuda(non_blocking=flag)",
        "x = torch.zeros(3).to('cpu', non_blocking=True)",
        "x = torch.zeros(3, device='cuda').to('cuda:1', non_blocking=True)",
        "def f(loader):\n    for x in loader:\n        x.cuda(non_blocking=True)",
        "model = torch.nn.Linear(2, 2).to('cuda', non_blocking=True)",
    ],
)
def test_what_looks_like_it_but_is_fine(statement: str) -> None:
    assert lines("FO203", "import torch\n" + statement) == []


def test_the_fix_pins_the_batches() -> None:
    assert "DataLoader(ds, batch_size=4, pin_memory=True, )" in fixed("FO203", LOADER.format(options=""))
