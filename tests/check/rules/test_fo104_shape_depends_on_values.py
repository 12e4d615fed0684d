from __future__ import annotations

import pytest
from checking import lines

TRAIN = """
import torch
def train(model, loader, optimizer):
    for i, x in enumerate(loader):
        x = x.to("cuda")
        scores = model(x)
        mask = scores > 0.5
        {statement}
        scores.sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "statement",
    [
        "kept = scores[mask]",
        "kept = scores[scores > 0]",
        "kept = mask.nonzero()",
        "kept = torch.nonzero(mask)",
        "kept = torch.where(mask)",
        "kept = torch.masked_select(scores, mask)",
        "kept = torch.unique(scores)",
        "kept = torch.repeat_interleave(x, scores.long())",
        "kept = x.repeat_interleave(scores.long(), dim=0)",
    ],
)
def test_the_host_must_learn_the_number(statement: str) -> None:
    assert lines("FO104", TRAIN.format(statement=statement)) == [7]


@pytest.mark.parametrize(
    "statement",
    [
        "kept = torch.where(mask, scores, 0)",
        "scores[mask] = 0",
        "kept = scores[:, 0]",
        "kept = scores[i]",
        "kept = x.repeat_interleave(3)",
        "kept = torch.repeat_interleave(x, scores.long(), output_size=64)",
        "if i % 50 == 0: kept = scores[mask]",
        "kept = torch.nonzero(torch.tensor([1, 0]))",
        "kept = numpy.where(a)",
    ],
)
def test_where_the_number_is_known_or_rarely_asked(statement: str) -> None:
    assert lines("FO104", TRAIN.format(statement=statement)) == []
