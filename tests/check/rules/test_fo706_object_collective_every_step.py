from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch.distributed as dist

for epoch in range(9):
    for step, x in enumerate(loader):
        loss = model(x)
        loss.backward()
        optimizer.step()
        {step}
    {epoch}
"""


def loop(step: str = "pass", epoch: str = "pass") -> str:
    return LOOP.format(step=step, epoch=epoch)


def test_found() -> None:
    (hit,) = hits("FO706", loop("dist.all_gather_object(out, {'loss': loss.item()})"))
    assert hit.node.lineno == 8
    assert "`all_gather_object` pickles `{'loss': loss.item()}` on each step" in hit.message
    assert lines("FO706", loop("dist.broadcast_object_list(objects, 0)")) == [8]


@pytest.mark.parametrize(
    "source",
    [
        loop(epoch="dist.all_gather_object(out, results)"),
        loop("if step % 100 == 0: dist.all_gather_object(out, loss)"),
        loop("dist.all_gather(out, loss)  # not all_gather_object"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO706", source) == []
