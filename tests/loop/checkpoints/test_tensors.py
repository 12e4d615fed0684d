"""Names that no wrapper changes, and what is said of states that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flatout.loop.checkpoints.tensors import few, load_model, model_faults, model_state, plain_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("weight", "weight"),
        ("_orig_mod.weight", "weight"),
        ("a._orig_mod.b._checkpoint_wrapped_module.c.bias", "a.b.c.bias"),
        ("_orig_mod._orig_mod.x", "x"),
        ("module.weight", "module.weight"),  # may be the user's own name
        ("my_orig_mod.weight", "my_orig_mod.weight"),
    ],
)
def test_plain_names(name: str, expected: str) -> None:
    assert plain_name(name) == expected


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_wrappers_names_are_taken_off_a_state(prefix: str) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    wanted = {name: torch.ones_like(value) for name, value in model.state_dict().items()}
    saved = {prefix + name: value for name, value in wanted.items()}
    assert model_faults(model, saved) == []
    load_model(model, saved)
    assert all(torch.equal(value, wanted[name]) for name, value in model_state(model).items())


def test_a_models_own_module_keeps_its_name() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(1, 1)

    assert model_faults(Outer(), model_state(Outer())) == []
    assert model_faults(nn.Linear(1, 1), model_state(Outer())) == []


def test_a_state_that_is_no_tensor() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    one, other = Counting(), Counting()
    one.count = 5
    assert model_faults(other, model_state(one)) == []
    load_model(other, model_state(one))
    assert other.count == 5


def test_a_lazy_model_takes_its_shapes_from_the_state() -> None:
    saved = model_state(nn.Linear(4, 2))
    lazy = nn.LazyLinear(2)
    assert model_faults(lazy, saved) == []
    load_model(lazy, saved)
    assert lazy.weight.shape == (2, 4)


def test_shared_parameters() -> None:
    def tied() -> nn.Sequential:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model[1].weight = model[0].weight
        return model

    one, other = tied(), tied()
    load_model(other, model_state(one))
    assert other[1].weight is other[0].weight
    assert torch.equal(other[1].weight, one[0].weight)


def test_a_few() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
