"""The maker of the table of torch's names: what counts as a name, and how the lists of several versions become one."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flatout.check.torch_names import _Table


@pytest.fixture(scope="module")
def merge() -> Iterator[ModuleType]:
    """tools/torch_names/merge.py, which finds its neighbour as a script does."""
    folder = str(Path(__file__).resolve().parents[2] / "tools" / "torch_names")
    sys.path.insert(0, folder)
    yield importlib.import_module("merge")
    sys.path.remove(folder)


SOURCE = """
import os
if TYPE_CHECKING:
    from a import only_for_types
else:
    other = 1
try:
    from torch._C import Built as built_in, second
    x: int = 3
except ImportError:
    def fallback(): ...
    if windows:
        class Window: ...
with context:
    outside_any_branch = 1
def f():
    if y:
        inside = 1
for a in b:
    c, (d, e) = a
"""


def test_names_of_branches_not_taken_are_found(merge: ModuleType) -> None:
    found = set(sys.modules["survey"].bound_in_branches(ast.parse(SOURCE).body))
    assert found == {"other", "built_in", "second", "x", "fallback", "Window"}


def test_names_taken_over_with_a_star_are_followed(merge: ModuleType) -> None:
    tree = ast.parse("from .b import *\nfrom ..c.d import *\nfrom . import e\nif x:\n    from torch.f import *")
    star_imports = sys.modules["survey"].star_imports
    assert star_imports(tree, "torch.a.here", False) == ["torch.a.b", "torch.c.d", "torch.f"]
    assert star_imports(tree, "torch.a.here", True) == ["torch.a.here.b", "torch.a.c.d", "torch.f"]


def _scope(open_: bool = False, bases: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    return {"bases": list(bases), "open": open_, "members": members}


def test_versions_become_one_table(merge: ModuleType) -> None:
    old = {
        "torch": _scope(nn=["torch.nn", False], os=[None, True], solve=[None, False]),
        "torch.nn": _scope(Base=["torch.nn.Base", False], Old=["torch.nn.old.Old", False]),
        "torch.nn.Base": _scope(shared=None),
        "torch.nn.old.Old": _scope(bases=("torch.nn.Base",), step=None),
    }
    new = {
        "torch": _scope(nn=["torch.nn", False], os=[None, True], ops=["torch.ops", False], compile=[None, False]),
        "torch.nn": _scope(Base=["torch.nn.Base", False], Old=["torch.nn.Old", False]),
        "torch.nn.Base": _scope(shared=None, added=None),
        "torch.nn.Old": _scope(bases=("torch.nn.Base",), step=None),
        "torch.ops": _scope(anything=[None, False]),  # never looked into
        "torch.xpu": _scope(),
    }
    surveys = [{"torch": "2.0.1", "scopes": old}, {"torch": "2.10.0", "scopes": new}]
    lines = merge.Merge(surveys).lines()
    assert lines == [
        "2.0 2.10",
        "torch compile+1 nn>2 ops>5+1 os~ solve-0",
        "torch.nn Base>3 Old>4",
        "torch.nn.Base added+1 shared",
        "torch.nn.Old:3 step",  # one class, though it has moved
        "torch.ops*+1",
        "torch.xpu*+1",
    ]
    table = _Table("# how to read it\n" + "\n".join(lines) + "\n")
    assert table.versions == [(2, 0), (2, 10)]
    assert [member.first for member in table.found(4, "added")] == [1]  # through its base
    answers = {version: table.has(table.scope(1).members["compile"], version) for version in [(2, 0), (2, 5), (2, 10)]}
    assert answers == {(2, 0): False, (2, 5): None, (2, 10): True}
    answers = {version: table.has(table.scope(1).members["solve"], version) for version in [(2, 0), (2, 5), (2, 10)]}
    assert answers == {(2, 0): True, (2, 5): None, (2, 10): False}
