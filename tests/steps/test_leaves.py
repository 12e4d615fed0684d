"""Updates by hand are seen in the parameters' values."""

from __future__ import annotations

import torch

from flatout.steps.leaves import Leaves


def test_an_update_through_data_is_seen() -> None:
    weight = torch.ones(3, requires_grad=True)
    leaves = Leaves()
    assert not leaves.changed([(weight * 2).sum()])
    assert not leaves.changed([(weight * 2).sum()])
    weight.data.add_(1.0)  # which no version counter tells
    assert leaves.changed([(weight * 2).sum()])
    assert not leaves.changed(())


def test_without_a_graph_nothing_changes() -> None:
    assert not Leaves().changed([torch.ones(1)])
