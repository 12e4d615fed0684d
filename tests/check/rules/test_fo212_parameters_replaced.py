from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
{statement}
"""


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("model = FSDP(model)", "`FSDP(model)` replaces the parameters"),
        ("fully_shard(model)", "`fully_shard(model)` replaces the parameters"),
        ("model.fc = nn.Linear(512, 10)", "`model.fc` gets a new layer"),
        ("model.load_state_dict(torch.load(path), assign=True)", "`assign=True` replaces the parameters"),
    ],
)
def test_replaced(statement: str, words: str) -> None:
    (hit,) = hits("FO212", SCRIPT.format(statement=statement))
    assert hit.node.lineno == 6
    assert hit.message == f"{words} after `optimizer` was made on line 5: `optimizer` does not have the new ones"


@pytest.mark.parametrize(
    "statement",
    [
        "model = model.cuda()",  # moved in place: the Parameters are the same objects
        "model.half()",
        "model.load_state_dict(torch.load(path))",
        "model.name = 'x'",
        "other = FSDP(teacher)",
        "model.act = nn.ReLU()",
        "model.fc = nn.Linear(5, 1)\noptimizer = torch.optim.SGD(model.parameters())",
        "model.fc = nn.Linear(5, 1)\noptimizer.add_param_group({'params': model.fc.parameters()})",
        "def rebuild(model):\n    model.fc = nn.Linear(5, 1)",
    ],
)
def test_what_looks_like_it_but_is_fine(statement: str) -> None:
    assert lines("FO212", SCRIPT.format(statement=statement)) == []


def test_which_calls_keep_the_parameters() -> None:
    import torch

    model = torch.nn.Linear(2, 2)
    weight = model.weight
    assert model.half().float().weight is weight
    model.load_state_dict(torch.nn.Linear(2, 2).state_dict())
    assert model.weight is weight
    model.load_state_dict(torch.nn.Linear(2, 2).state_dict(), assign=True)
    assert model.weight is not weight
