from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch

scaler = torch.amp.GradScaler({scaler})
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype={dtype}):
        loss = model(x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def script(scaler: str = '"cuda"', dtype: str = "torch.bfloat16") -> str:
    return SCRIPT.format(scaler=scaler, dtype=dtype)


def test_found() -> None:
    (hit,) = hits("FO406", script())
    assert hit.node.lineno == 3
    assert "autocast in line 6" in hit.message
    assert lines("FO406", script('"cuda", enabled=True')) == [3]
    assert lines("FO406", "dtype = torch.bfloat16\n" + script(dtype="dtype").lstrip()) == [4]


@pytest.mark.parametrize(
    "source",
    [
        script(dtype="torch.float16"),
        script(dtype="dtype"),
        script('"cuda", enabled=dtype == torch.float16'),
        script('"cuda", enabled=False'),
        script() + '    with torch.autocast("cuda"):\n        pass\n',
        script().replace("scaler.scale(loss)", "loss"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO406", source) == []
