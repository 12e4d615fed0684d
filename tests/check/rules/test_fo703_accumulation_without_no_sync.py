from __future__ import annotations

import pytest
from checking import hits, lines

SETUP = """\
from torch.nn.parallel import DistributedDataParallel as DDP  # DDP
model = DDP(net, device_ids=[rank])
"""
WINDOW = """\
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / steps
    loss.backward()
    if (i + 1) % steps == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
NESTED = """\
for step in range(1000):
    for part in range(steps):
        loss = criterion(model(x[part]), y[part]) / steps
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(("loop", "line"), [(WINDOW, 5), (NESTED, 6)])
def test_found(loop: str, line: int) -> None:
    (hit,) = hits("FO703", SETUP + loop)
    assert hit.node.lineno == line
    assert "for each of the `steps` batches" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        WINDOW + "# DDP\n",  # no such model here
        SETUP + WINDOW.replace("    loss.backward", "    with maybe(model.no_sync):\n        loss.backward"),
        SETUP + WINDOW.replace("    loss.b", "    model.require_backward_grad_sync = last\n    loss.b"),
        SETUP + WINDOW.replace("if (i + 1) % steps == 0", "if True"),
        SETUP + NESTED.replace("    optimizer.step()", "        optimizer.step()"),
        SETUP + NESTED.replace("range(steps)", "range(1, steps)"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO703", source) == []
