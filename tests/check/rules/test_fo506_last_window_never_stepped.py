from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
def train(model, loader, optimizer, n):
    for i, (x, y) in {over}:
        loss = model(x, y) / n
        loss.backward()
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
    {after}
"""


def loop(test: str = "(i + 1) % n == 0", over: str = "enumerate(loader)", after: str = "return 0") -> str:
    return LOOP.format(test=test, over=over, after=after)


@pytest.mark.parametrize("test", ["(i + 1) % n == 0", "i % n == n - 1", "not (i + 1) % n"])
def test_found(test: str) -> None:
    (hit,) = hits("FO506", loop(test))
    assert hit.node.lineno == 5
    assert "no multiple of `n`" in hit.message
    assert "len(loader)" in hit.remedy


def test_around_a_progress_bar() -> None:
    assert lines("FO506", loop(over="enumerate(tqdm(train_loader))")) == [5]


@pytest.mark.parametrize(
    "source",
    [
        loop("(i + 1) % n == 0 or i + 1 == len(loader)"),
        loop(after="optimizer.step()"),
        loop("(step + 1) % n == 0"),
        loop(over="enumerate(stream)"),
        loop(over="batches()"),
        loop().replace("    for i", "    assert len(loader) % n == 0\n    for i"),
        loop().replace("for i, (x, y) in enumerate(loader)", "for i in range(steps)"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO506", source) == []
