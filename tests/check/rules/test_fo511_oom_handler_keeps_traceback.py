from __future__ import annotations

import pytest
from checking import hits, lines

RETRY = """
import torch

def run(model, x):
    try:
        out = model(x)
    except {caught}:
        {body}
    return out
"""


@pytest.mark.parametrize(
    ("caught", "body"),
    [
        ("torch.cuda.OutOfMemoryError", "torch.cuda.empty_cache(); out = model(x[:4])"),
        ("torch.OutOfMemoryError as e", "out = model(x[:4])"),
        ("(KeyError, torch.OutOfMemoryError)", "out = model(x[:4])"),
        ("RuntimeError as e", "if 'out of memory' in str(e): out = model(x[:4])"),
    ],
)
def test_found(caught: str, body: str) -> None:
    (hit,) = hits("FO511", RETRY.format(caught=caught, body=body))
    assert hit.node.lineno == 7
    assert "`model` is tried again inside the `except`" in hit.message
    assert "(line 5)" in hit.message


def test_through_a_function_of_this_file() -> None:
    source = """
    import torch

    def step(model, x):
        loss = model(x).sum()
        loss.backward()

    def run(model, x):
        try:
            step(model, x)
        except torch.cuda.OutOfMemoryError:
            step(model, x[:4])
    """
    assert lines("FO511", source) == [11]


@pytest.mark.parametrize(
    "source",
    [
        RETRY.format(caught="torch.OutOfMemoryError", body="failed = True") + "# out = model(x)\n",
        RETRY.format(caught="torch.OutOfMemoryError", body="torch.cuda.empty_cache(); raise"),
        RETRY.format(caught="ValueError", body="out = model(x[:4])") + "# out of memory\n",
        RETRY.format(caught="torch.OutOfMemoryError", body="log(x)").replace("out = model(x)", "log(x)"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO511", source) == []
