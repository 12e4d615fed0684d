"""The table of places that ask for CUDA: every row is answered, and no kernel of CUDA's is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatout.virtual import cuda_branches, kernels, native_functions, registration, stand_ins

PAGE = Path(__file__).resolve().parents[2] / "docs" / "virtual-gpu.md"


@pytest.fixture(scope="module")
def answered() -> dict[str, stand_ins.Handler]:
    kernels.load()
    return stand_ins.handlers | stand_ins.composites


@pytest.mark.parametrize("branch", cuda_branches.BRANCHES, ids=lambda branch: branch.operators[0])
def test_each_branch_is_answered_where_it_says(
    branch: cuda_branches.Branch, answered: dict[str, stand_ins.Handler]
) -> None:
    modules = {answered[f"aten::{name}"].__module__ for name in branch.operators}
    assert modules == {f"flatout.virtual.kernels.{branch.module}"}


def test_every_kernel_of_cuda_is_answered_or_exempt(answered: dict[str, stand_ins.Handler]) -> None:
    if native_functions.find_table() is None:
        pytest.skip("this PyTorch does not bring the table of its operators along")
    found = native_functions.with_kernel_for("CUDA")
    assert len(found) > 700
    assert cuda_branches.uncovered(found, registration.covered_names() | set(answered)) == []


def test_what_counts_as_covered() -> None:
    assert cuda_branches.uncovered({"a", "c.out"}, set()) == ["a"]
    assert cuda_branches.uncovered({"a", "miopen_rnn"}, {"aten::a"}) == []


def test_the_documentation_shows_the_table() -> None:
    table = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    shown = cuda_branches.as_markdown().splitlines()
    start = table.index(shown[0])
    assert table[start : start + len(shown)] == shown, (
        "put what cuda_branches.as_markdown() gives in docs/virtual-gpu.md"
    )
