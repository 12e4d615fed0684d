from __future__ import annotations

import pytest
from checking import lines

AUGMENT = """
import torch
def augment(x, device="cuda"):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("a = x.cpu().numpy()\n    a[0] = 0\n    return torch.from_numpy(a).to(device)", 3),
        ("a = x.detach().cpu().numpy()\n    return torch.tensor(a).cuda()", 3),
        ("return torch.from_numpy(x.cpu().numpy()).to('cuda')", 3),
        ("a = x.cpu().numpy().copy()\n    return torch.from_numpy(a.argmax(axis=1)).to('cuda')", 3),
    ],
)
def test_off_and_on_again(body: str, line: int) -> None:
    assert lines("FO106", AUGMENT.format(body=body)) == [line]


@pytest.mark.parametrize(
    "body",
    [
        "a = x.cpu().numpy()\n    return torch.from_numpy(a)",
        "a = x.cpu().numpy()\n    return a",
        "a = load().numpy()\n    return torch.from_numpy(a).to('cuda')",
        "a = torch.ones(3).cpu().numpy()\n    return torch.from_numpy(a).to('cuda')",
        "a = x.cpu().numpy()\n    return torch.from_numpy(a).to('cpu')",
        "a = x.cpu().numpy()\n    a = other()\n    return torch.from_numpy(a).to('cuda')",
    ],
)
def test_one_way_only(body: str) -> None:
    assert lines("FO106", AUGMENT.format(body=body)) == []
