from __future__ import annotations

import pytest
from checking import fixed, hits, lines

TRAIN = """
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
for x in loader:
    {statement}
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("noise = torch.zeros(8, 100).to(device)", "noise = torch.zeros(8, 100, device=device)"),
        ("noise = torch.zeros(8, 100).cuda()", 'noise = torch.zeros(8, 100, device="cuda")'),
        ("noise = torch.ones(8).to(device)  # one", "noise = torch.ones(8, device=device)  # one"),
        ("noise = torch.zeros(8).cuda(1)", "noise = torch.zeros(8, device=1)"),
        ("noise = torch.zeros(8).cuda(device=rank)", "noise = torch.zeros(8, device=rank)"),
        ("noise = torch.arange(8,).to(device)", "noise = torch.arange(8, device=device,)"),
        ("noise = torch.zeros(x.size(0)).to(x.device)", "noise = torch.zeros(x.size(0), device=x.device)"),
        ("noise = torch.full((2,), 1.0).to(device, non_blocking=True)", "noise = torch.full((2,), 1.0, device=device)"),
    ],
)  # fmt: skip
def test_made_where_it_is_needed(statement: str, after: str) -> None:
    source = TRAIN.format(statement=statement)
    (hit,) = hits("FO201", source)
    assert hit.fix is not None
    assert hit.fix.applicability == "safe"
    assert after in fixed("FO201", source)


def test_random_numbers_are_others_on_a_gpu() -> None:
    (hit,) = hits("FO201", TRAIN.format(statement="noise = torch.randn(8, 100).to(device)"))
    assert hit.fix is not None
    assert hit.fix.applicability == "unsafe"


@pytest.mark.parametrize(
    "statement",
    [
        "noise = torch.zeros(8, device=device)",
        "noise = torch.zeros(8).to(torch.float16)",
        "noise = torch.zeros(8).to('cpu')",
        "noise = torch.zeros(8, out=y).to(device)",
        "noise = torch.randn(8, generator=generator).to(device)",  # a CPU generator draws the same numbers everywhere
        "noise = torch.tensor([1, 2]).to(device)",
        "noise = torch.from_numpy(a).to(device)",
        "noise = torch.zeros(8, pin_memory=True).to(device, non_blocking=True)",
        "noise = torch.zeros(8, pin_memory=pin).to(device)",
        "noise = torch.zeros(8).to(somewhere)",
    ],
)
def test_what_is_fine(statement: str) -> None:
    assert lines("FO201", TRAIN.format(statement=statement)) == []


def test_once_at_the_start_costs_nothing() -> None:
    assert lines("FO201", "import torch\nfixed_noise = torch.randn(64, 100).to('cuda')\n") == []


def test_the_fixed_program_computes_the_same() -> None:
    source = "import torch\nfor _ in range(1):\n    x = torch.full((2, 2), 3.0).to(torch.device('cuda'))\n"
    text = fixed("FO201", source).replace("'cuda'", "'cpu'")
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    exec(source.replace("'cuda'", "'cpu'"), before)
    exec(text, after)
    assert before["x"].equal(after["x"])  # type: ignore[attr-defined]


def test_a_leaf_is_another_and_a_comment_stays() -> None:
    (hit,) = hits("FO201", TRAIN.format(statement="w = torch.zeros(8, requires_grad=True).to(device)"))
    assert hit.fix is not None
    assert hit.fix.applicability == "unsafe"
    (hit,) = hits("FO201", TRAIN.format(statement="w = torch.zeros(8).to(  # there\n        device)"))
    assert hit.fix is None
