from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch.distributed as dist

def average(tensor, count):
    total = tensor.clone()
    dist.all_reduce(total)
    total /= count
    return total

for step, x in enumerate(loader):
    loss = model(x)
    loss.backward()
    optimizer.step()
    {step}
"""


def loop(step: str) -> str:
    return LOOP.format(step=step.replace("\n", "\n    "))


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("dist.all_reduce(loss)\nrunning += loss.item()", 13),
        ("dist.all_reduce(loss)\ndist.all_reduce(hits)\nprint(loss / 8)\nprint(hits)", 13),  # one a loop
        ("reduced = average(loss, 8)\nrunning += reduced.item()", 5),
        ("running += average(loss, 8).item()", 5),
    ],
)
def test_found(step: str, line: int) -> None:
    (hit,) = hits("FO709", loop(step))
    assert hit.node.lineno == line
    assert "is reduced over all ranks and read (line" in hit.message


@pytest.mark.parametrize(
    "step",
    [
        "dist.all_reduce(loss)\ntotal += loss.detach()",
        "dist.all_reduce(loss)\nif step % 100 == 0:\n    print(loss.item())",
        "if step % 100 == 0:\n    dist.all_reduce(loss)\n    print(loss.item())",
        "running += loss.item()\ndist.all_reduce(grads)",
        "reduced = average(loss, 8)",
    ],
)
def test_what_looks_like_it_but_is_fine(step: str) -> None:
    assert lines("FO709", loop(step)) == []
