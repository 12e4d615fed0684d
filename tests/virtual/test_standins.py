"""The table of places that ask for CUDA: every row is answered, and no kernel of CUDA's is forgotten."""

from __future__ import annotations

import importlib

import pytest

from flatout.virtual import kernels, native_functions, registration, registry, standins


@pytest.fixture(scope="module")
def answered() -> set[str]:
    kernels.load()
    return set(registry.handlers) | set(registry.composites)


@pytest.mark.parametrize("row", standins.ROWS, ids=lambda row: row.operators[0])
def test_each_row_is_answered_where_it_says(row: standins.Row, answered: set[str]) -> None:
    assert {f"aten::{name}" for name in row.operators} <= answered
    importlib.import_module(f"flatout.virtual.kernels.{row.module}")


def test_every_kernel_of_cuda_is_answered_or_exempt(answered: set[str]) -> None:
    if native_functions.find_table() is None:
        pytest.skip("this PyTorch does not bring the table of its operators along")
    found = native_functions.with_kernel_for("CUDA")
    assert len(found) > 700
    assert standins.uncovered(found, registration.covered_names() | answered) == []


def test_what_counts_as_covered() -> None:
    assert standins.uncovered({"a", "c.out"}, set()) == ["a"]
    assert standins.uncovered({"a", "miopen_rnn"}, {"aten::a"}) == []


def test_the_table_as_documentation() -> None:
    text = standins.as_markdown()
    assert text.count("\n") == len(standins.ROWS) + 1
    assert "`scaled_dot_product_attention`" in text
