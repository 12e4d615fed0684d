"""Random numbers of the GPU."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("machine")


def test_the_cpus_generator_is_left_alone() -> None:
    torch.manual_seed(0)
    alone = torch.randperm(5).tolist()
    torch.manual_seed(0)
    torch.randn(100, device="cuda")
    torch.nn.functional.dropout(torch.randn(4, device="cuda"), 0.5, True)
    assert torch.randperm(5).tolist() == alone


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.cuda.manual_seed, torch.cuda.manual_seed_all])
def test_seeds_repeat(seed: object) -> None:
    seed(7)
    assert torch.cuda.initial_seed() == 7
    first = torch.rand(3, device="cuda").tolist()
    assert torch.rand(3, device="cuda").tolist() != first
    seed(7)
    assert torch.rand(3, device="cuda").tolist() == first


def test_states_repeat() -> None:
    state = torch.cuda.get_rng_state()
    assert state.dtype is torch.uint8
    assert state.numel() == 16
    first = torch.randint(0, 100, (3,), device="cuda").tolist()
    torch.cuda.set_rng_state(state)
    assert torch.randint(0, 100, (3,), device="cuda").tolist() == first
    with torch.random.fork_rng():
        torch.rand(1, device="cuda")
    assert len(torch.cuda.get_rng_state_all()) == 1


def test_a_generator_of_ones_own() -> None:
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device == torch.device("cuda", 0)
    assert isinstance(generator, torch.Generator)
    first = torch.randperm(9, device="cuda", generator=generator).tolist()
    assert sorted(first) == list(range(9))
    assert torch.randperm(9, device="cuda", generator=generator.manual_seed(3)).tolist() == first
    for other in (pickle.loads(pickle.dumps(generator)), generator.clone_state()):
        assert torch.equal(other.get_state(), generator.get_state())
    assert copy.copy(torch.Generator()).device.type == "cpu"


def test_the_cpus_generator_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.randn(5, device="cuda", generator=torch.Generator())


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31).map(lambda n: n * 4))
def test_states_round_trip(seed: int, offset: int) -> None:
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    generator.set_offset(offset)
    state = generator.get_state()
    assert torch.equal(torch.Generator(device="cuda").set_state(state).get_state(), state)
