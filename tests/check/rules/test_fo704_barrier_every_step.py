from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch.distributed as dist

for epoch in range(9):
    {epoch}
    for step, x in enumerate(loader):
        loss = model(x)
        loss.backward()
        optimizer.step()
        {step}
"""


def loop(step: str = "pass", epoch: str = "pass  # barrier") -> str:
    return LOOP.format(step=step, epoch=epoch)


@pytest.mark.parametrize(
    "call", ["dist.barrier()", "accelerator.wait_for_everyone()", "if distributed: dist.barrier()"]
)
def test_found(call: str) -> None:
    (hit,) = hits("FO704", loop(call))
    assert hit.node.lineno == 9
    assert "on each step" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        loop(epoch="dist.barrier()"),
        loop("if step % 100 == 0: dist.barrier()"),
        loop("threads.barrier()"),
        loop("dist.barrier(group=writers)"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO704", source) == []
