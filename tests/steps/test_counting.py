"""When a training step counts as complete."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flatout.steps.counting import BACKWARDS_WITHOUT_STEP, PATIENCE, StepCounter


def test_one_optimizer_makes_a_step_each_time() -> None:
    counter = StepCounter()
    counter.optimizer_made(1)
    assert [counter.optimizer_stepped(1) for _ in range(3)] == [True, True, True]
    assert counter.completed == 3


def test_two_optimizers_make_one_step_together() -> None:
    counter = StepCounter()
    counter.optimizer_made(1)
    counter.optimizer_made(2)
    assert [counter.optimizer_stepped(key) for key in (1, 2, 1, 2)] == [False, True, False, True]
    assert counter.completed == 2


def test_a_critic_may_step_more_often() -> None:
    counter = StepCounter()
    counter.optimizer_made(1)
    counter.optimizer_made(2)
    for _ in range(5):
        counter.optimizer_stepped(1)
    assert counter.completed == 0
    assert counter.optimizer_stepped(2)
    assert counter.completed == 1


def test_an_optimizer_that_never_moves_is_not_waited_for_for_ever() -> None:
    counter = StepCounter()
    counter.optimizer_made(1)
    counter.optimizer_made(2)
    for _ in range(PATIENCE):
        counter.optimizer_stepped(1)
    assert counter.completed == 1


def test_an_optimizer_that_is_gone_is_not_waited_for() -> None:
    counter = StepCounter()
    counter.optimizer_made(1)
    counter.optimizer_made(2)
    counter.optimizer_gone(2)
    assert counter.optimizer_stepped(1)


def test_updates_by_hand_make_steps_between_backward_passes() -> None:
    counter = StepCounter()
    counter.parameter_updated()  # loading weights
    assert not counter.backward_begins()
    counter.parameter_updated()
    assert counter.backward_begins()
    assert counter.completed == 1


def test_five_updates_by_hand_are_five_steps() -> None:
    counter = StepCounter()
    for _ in range(5):
        counter.backward_begins()
        counter.parameter_updated()
    assert counter.completed == 4
    assert counter.program_ends()
    assert counter.completed == 5


def test_accumulation_by_hand_is_one_step() -> None:
    counter = StepCounter()
    for _ in range(4):
        assert not counter.backward_begins()
    counter.parameter_updated()
    assert counter.backward_begins()


def test_updates_that_cannot_be_seen_count_at_last() -> None:
    counter = StepCounter()
    steps = [counter.backward_begins() for _ in range(BACKWARDS_WITHOUT_STEP + 1)]
    assert steps == [False] * BACKWARDS_WITHOUT_STEP + [True]


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=60))
def test_steps_only_grow_and_never_pass_the_busiest_optimizer(order: list[int]) -> None:
    counter = StepCounter()
    for key in (1, 2, 3):
        counter.optimizer_made(key)
    for key in order:
        before = counter.completed
        grown = counter.optimizer_stepped(key)
        assert grown == (counter.completed > before)
    assert counter.completed <= max((order.count(key) for key in (1, 2, 3)), default=0)
