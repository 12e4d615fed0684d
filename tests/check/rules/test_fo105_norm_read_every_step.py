from __future__ import annotations

from checking import lines

TRAIN = """
import torch
from torch.nn.utils import clip_grad_norm_
for i, x in enumerate(loader):
    model(x.cuda()).sum().backward()
    {statement}
    optimizer.step()
"""


def test_every_step() -> None:
    clip = "clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)"
    assert lines("FO105", TRAIN.format(statement=clip)) == [5]
    assert lines("FO105", TRAIN.format(statement=f"torch.nn.utils.{clip}")) == [5]


def test_without_the_check_or_rarely() -> None:
    for statement in (
        "clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)",
        "clip_grad_norm_(model.parameters(), 1.0)  # error_if_nonfinite",
        "clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=args.check)",
        "if i % 9 == 0: clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
        "mine.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
    ):
        assert lines("FO105", TRAIN.format(statement=statement)) == [], statement
