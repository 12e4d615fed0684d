from __future__ import annotations

import pytest
from checking import fixed, hits, lines

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {statement}
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize(
    "statement",
    [
        "self.layers = [nn.Linear(4, 4), nn.Linear(4, 2)]",
        "self.layers = [nn.Linear(4, 4) for _ in range(3)]",
        "self.layers = {'a': nn.Linear(4, 4)}",
        "self.layers = []\n        self.layers.append(nn.Linear(4, 4))",
    ],
)
def test_plain_containers(statement: str) -> None:
    assert lines("FO207", NET.format(statement=statement)) == [6]


@pytest.mark.parametrize(
    "statement",
    [
        "self.layers = nn.ModuleList([nn.Linear(4, 4)])",
        "self.layers = [4, 8]",
        "self.layers = []",
        "self.layers = [nn.ReLU(), nn.Dropout(0.1)]",
        "self.layers = [nn.Linear(4, 4)]\n        self.kept = nn.ModuleList(self.layers)",
        "self.layers = [nn.Linear(4, 4)]\n        self.add_module('0', self.layers[0])",
        "layers = [nn.Linear(4, 4)]\n        self.layers = nn.Sequential(*layers)",
        "self.layers = [make(i) for i in range(3)]",
    ],
)
def test_what_is_registered_or_holds_no_parameters(statement: str) -> None:
    assert lines("FO207", NET.format(statement=statement)) == []


def test_a_class_that_is_no_module() -> None:
    source = NET.format(statement="self.layers = [nn.Linear(1, 1)]").replace("(nn.Module)", ":  # no Module #")
    assert lines("FO207", source) == []


def test_the_fix_registers_them() -> None:
    source = NET.format(statement="self.layers = [nn.Linear(4, 4), nn.Linear(4, 2)]  # two")
    text = fixed("FO207", source)
    assert "self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])  # two" in text
    before: dict[str, type] = {}
    after: dict[str, type] = {}
    exec(source, before)
    exec(text, after)
    assert len(list(before["Net"]().parameters())) == 0
    assert len(list(after["Net"]().parameters())) == 4
    assert hits("FO207", source)[0].fix.applicability == "unsafe"  # type: ignore[union-attr]


def test_names_that_no_module_may_have() -> None:
    assert lines("FO207", NET.format(statement="self.layers = {'a.b': nn.Linear(4, 4)}")) == []
