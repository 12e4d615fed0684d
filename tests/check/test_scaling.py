from __future__ import annotations

import pytest
from asking import module, probes

from flatout.check.scaling import exclude_each_other, same_pass, scaler_calls


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a:\n    probe(1)\nelse:\n    probe(2)\n", True),
        ("if a:\n    probe(1)\nelif b:\n    probe(2)\n", True),
        ("try:\n    probe(1)\nexcept E:\n    probe(2)\n", True),
        ("if a:\n    probe(1)\n    if b:\n        probe(2)\n", False),
        ("if a:\n    probe(1)\nif a:\n    probe(2)\n", False),
        ("try:\n    probe(1)\nfinally:\n    probe(2)\n", False),
    ],
)
def test_branches(source: str, expected: bool) -> None:
    parsed = module(source)
    first, second = probes(parsed)
    assert exclude_each_other(parsed, first, second) is expected
    assert exclude_each_other(parsed, second, first) is expected
    assert same_pass(parsed, first, second) is not expected


def test_another_round_is_another_pass() -> None:
    parsed = module("for x in a:\n    probe(1)\n    for y in x:\n        probe(2)\n")
    assert not same_pass(parsed, *probes(parsed))


def test_the_calls_of_a_scaler() -> None:
    source = "s = torch.amp.GradScaler('cuda')\nt = StandardScaler()\ns.scale(x)\nt.scale(x)\nscaler.scale(x)\n"
    assert [call.lineno for call in scaler_calls(module("import torch\n" + source), "scale")] == [4, 6]
