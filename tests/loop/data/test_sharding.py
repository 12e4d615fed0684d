"""Which samples make up which batch on which rank."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flatout.loop.data.sharding import DealtPlan, EpochPlan, cut, deal

plans = st.builds(
    EpochPlan,
    samples=st.integers(0, 60),
    batch_size=st.integers(1, 7),
    ranks=st.integers(1, 5),
    drop_last=st.booleans(),
)


def parts(plan: EpochPlan, batch: int) -> list[tuple[int, int]]:
    return [plan.part_of(batch, rank) for rank in range(plan.ranks)]


@given(plans)
def test_the_parts_of_a_global_batch_follow_each_other_and_differ_by_one_at_most(plan: EpochPlan) -> None:
    position = 0
    for batch in range(plan.batches):
        sizes = []
        for start, end in parts(plan, batch):
            assert start == position
            position = end
            sizes.append(end - start)
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= plan.batch_size
        assert sum(sizes) == plan.total_in(batch) > 0
    size = plan.batch_size * plan.ranks
    assert position == (plan.samples - plan.samples % size if plan.drop_last else plan.samples)


@given(plans)
def test_the_ranks_parts_joined_are_the_batches_of_one_process_with_a_batch_as_large(plan: EpochPlan) -> None:
    alone = EpochPlan(plan.samples, plan.batch_size * plan.ranks, 1, plan.drop_last)
    assert alone.batches == plan.batches
    for batch in range(plan.batches):
        joined = parts(plan, batch)
        assert (joined[0][0], joined[-1][1]) == alone.part_of(batch, 0)
        assert alone.total_in(batch) == plan.total_in(batch)


@given(plans)
def test_cut_for_training_gives_every_rank_as_many_batches_and_every_sample_its_weight_once(plan: EpochPlan) -> None:
    order = [f"sample {i}" for i in range(plan.samples)]
    shares = [cut(order, plan, rank, fill=True) for rank in range(plan.ranks)]
    assert {len(mine) for mine in shares} == {plan.batches}
    counted = []
    for batch in range(plan.batches):
        group = [mine[batch] for mine in shares]
        assert all(share.indices for share in group)  # something to run forward and backward on
        assert sum(share.samples or 0 for share in group) == plan.total_in(batch)
        counted += [index for share in group if share.samples for index in share.indices]
    assert counted == order[: len(counted)]
    assert len(counted) == sum(plan.total_in(batch) for batch in range(plan.batches))


@given(plans)
def test_cut_for_evaluation_gives_every_sample_once(plan: EpochPlan) -> None:
    order = list(range(plan.samples))
    shares = [cut(order, plan, rank, fill=False) for rank in range(plan.ranks)]
    seen = sorted(index for mine in shares for share in mine for index in share.indices)
    assert seen == order[: len(seen)]
    assert plan.drop_last or seen == order
    assert all(share.samples == len(share.indices) for mine in shares for share in mine)


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 5))
def test_batches_are_dealt_out_whole(sizes: list[int], ranks: int) -> None:
    batches = [[number] * size for number, size in enumerate(sizes)]
    plan = DealtPlan(tuple(sizes), ranks)
    filled = [deal(batches, sizes, rank, ranks, fill=True) for rank in range(ranks)]
    assert {len(mine) for mine in filled} == {plan.batches}
    for batch in range(plan.batches):
        assert sum(mine[batch].samples or 0 for mine in filled) == plan.total_in(batch)
    assert plan.samples == sum(plan.total_in(batch) for batch in range(plan.batches))
    bare = [deal(batches, sizes, rank, ranks, fill=False) for rank in range(ranks)]
    assert sorted(share.indices for mine in bare for share in mine) == batches
