from __future__ import annotations

import ast

import pytest
from asking import module, probes

from flatout.check.compatibility import chosen_by_version


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("try:\n    probe(1)\nexcept AttributeError:\n    pass\n", True),
        ("try:\n    pass\nexcept ImportError:\n    probe(1)\n", True),
        ("if hasattr(torch, 'x'):\n    pass\nelse:\n    probe(1)\n", True),
        ("if torch.__version__ >= '2':\n    probe(1)\n", True),
        ("x = probe(1) if TORCH_2 else probe(2)\n", True),
        ("try:\n    probe(1)\nexcept KeyError:\n    pass\n", False),
        ("try:\n    probe(1)\nfinally:\n    pass\n", False),
        ("if torch.cuda.is_available():\n    probe(1)\n", False),
        ("probe(1)\n", False),
    ],
)
def test_chosen_by_version(source: str, expected: bool) -> None:
    parsed = module(source)
    call: ast.Call = probes(parsed)[0]
    assert chosen_by_version(parsed, call) is expected
