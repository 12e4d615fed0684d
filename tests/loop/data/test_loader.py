"""The prepared loader: the plain loader's order and random numbers, its sizes, nesting, many ranks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from flatout.errors import UsageError
from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.processes.distributed import Ranks

CPU = torch.device("cpu")
SAMPLES = 13


class Numbers(Dataset[Any]):
    """Sample i is i; `noisy` ones draw from all three global streams when they are fetched."""

    def __init__(self, *, noisy: bool = False) -> None:
        self.noisy = noisy

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        noise = [random.random(), np.random.rand(), torch.rand(()).item()] if self.noisy else [0.0] * 3
        return index, torch.tensor(noise, dtype=torch.float64)


class Lazy(Sampler[int]):
    """Draws from Python's global stream for each sample, in turns with the dataset."""

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        for _ in range(SAMPLES):
            yield random.randrange(SAMPLES)


class Eager(Sampler[int]):
    """Draws when it is asked for its iterator."""

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(SAMPLES).tolist())


class Stream(IterableDataset[Any]):
    def __init__(self, length: int | None = None) -> None:
        if length is not None:
            self.length = length

    def __iter__(self) -> Iterator[Any]:
        for index in np.random.permutation(SAMPLES).tolist():
            yield index, torch.rand((), dtype=torch.float64)


class SizedStream(Stream):
    def __len__(self) -> int:
        return SAMPLES


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


KINDS: dict[str, Callable[..., DataLoader[Any]]] = {
    "in order": lambda **o: DataLoader(Numbers(**o.pop("data", {})), 3, **o),
    "shuffled": lambda **o: DataLoader(Numbers(**o.pop("data", {})), 3, shuffle=True, **o),
    "shuffled by a generator": lambda **o: DataLoader(
        Numbers(**o.pop("data", {})), 3, shuffle=True, generator=generator(), **o
    ),
    "drop_last": lambda **o: DataLoader(Numbers(**o.pop("data", {})), 3, shuffle=True, drop_last=True, **o),
    "with replacement": lambda **o: DataLoader(
        Numbers(**o.pop("data", {})), 3, sampler=RandomSampler(range(SAMPLES), replacement=True, num_samples=70), **o
    ),
    "weighted": lambda **o: DataLoader(
        Numbers(**o.pop("data", {})), 3, sampler=WeightedRandomSampler(list(range(1, SAMPLES + 1)), SAMPLES), **o
    ),
    "subset": lambda **o: DataLoader(Numbers(**o.pop("data", {})), 3, sampler=SubsetRandomSampler(range(3, 11)), **o),
    "batch sampler": lambda **o: DataLoader(
        Numbers(**o.pop("data", {})), batch_sampler=BatchSampler(RandomSampler(range(SAMPLES)), 4, False), **o
    ),
    "not batched": lambda **o: DataLoader(Numbers(**o.pop("data", {})), None, shuffle=True, **o),
    "drawing lazily": lambda **o: DataLoader(Numbers(**o.pop("data", {})), 3, sampler=Lazy(), **o),
    "drawing eagerly": lambda **o: DataLoader(Numbers(**o.pop("data", {})), None, sampler=Eager(), **o),
}


def prepared(source: Any, *, ranks: Ranks | None = None, cursor: Cursor | None = None, **options: Any) -> Any:
    return PreparedLoader(source, CPU, ranks or Ranks(), cursor or Cursor(), **options)


def seed() -> None:
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)


def trained(loader: Any, epochs: int, *, fetched: bool = True) -> list[Any]:
    """What a training sees in `epochs` epochs that itself draws random numbers (as dropout does) after each batch.

    `fetched`: with what the dataset drew, not the order alone.
    """
    seed()
    seen: list[Any] = []
    for _ in range(epochs):
        for indices, noise in loader:
            seen.append(torch.as_tensor(indices).tolist())
            if fetched:
                seen.append(noise.tolist())
            seen.append([random.random(), np.random.rand(), torch.rand(()).item()])
        seen.append([random.random(), np.random.rand(), torch.rand(()).item()])
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_without_workers_draws_in_exactly_the_plain_order(kind: str) -> None:
    make = KINDS[kind]
    plain = trained(make(data={"noisy": True}), 4)
    assert trained(prepared(make(data={"noisy": True})), 4) == plain


@pytest.mark.parametrize("persistent", [False, True], ids=["fresh", "persistent"])
@pytest.mark.parametrize(
    "kind", ["shuffled", "shuffled by a generator", "weighted", "batch sampler", "drawing eagerly"]
)
def test_with_workers_order_and_main_streams_are_the_plain_ones_in_all_epochs(kind: str, persistent: bool) -> None:
    def make() -> DataLoader[Any]:
        return KINDS[kind](num_workers=2, persistent_workers=persistent, data={"noisy": True})

    plain = trained(make(), 4, fetched=False)
    assert trained(prepared(make()), 4, fetched=False) == plain


def test_the_trap_pytorchs_persistent_workers_change_the_order_from_the_second_epoch() -> None:
    fresh = trained(KINDS["shuffled"](num_workers=2), 2, fetched=False)
    persistent = trained(KINDS["shuffled"](num_workers=2, persistent_workers=True), 2, fetched=False)
    assert persistent != fresh
    loader = prepared(KINDS["shuffled"](num_workers=2))
    assert trained(loader, 2, fetched=False) == fresh


def worker_ids(loader: Any) -> set[int]:
    return {int(pid) for pids in loader for pid in pids}


class Pids(Dataset[int]):
    value = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return os.getpid()


def test_workers_live_on_until_the_dataset_is_changed() -> None:
    loader = prepared(DataLoader(Pids(), 2, num_workers=2))
    first = worker_ids(loader)
    assert worker_ids(loader) == first
    loader.dataset.value = 1
    assert not worker_ids(loader) & first


def test_what_the_plain_loaders_workers_see_of_a_changed_dataset_they_see_here() -> None:
    loader = prepared(KINDS["in order"](num_workers=1))
    assert not any(noise.any() for _, noise in loader)
    loader.dataset.noisy = True
    assert all(noise.any() for _, noise in loader)


def test_workers_are_gone_with_the_loader_even_in_cyclic_garbage() -> None:
    loader = prepared(DataLoader(Pids(), 2, num_workers=2))
    loader.itself = loader
    workers = worker_ids(loader)
    start = time.monotonic()
    del loader
    gc.collect()
    assert not workers & {child.pid for child in multiprocessing.active_children()}
    assert time.monotonic() - start < 4  # PyTorch waits 5 s for each worker that does not hear its good-bye


class Fails(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise LookupError("sample 7")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_of_the_dataset_comes_after_the_batches_before_it_and_the_next_pass_works(
    workers: int, ahead: bool
) -> None:
    loader = prepared(DataLoader(Fails(), 3, num_workers=workers), looks_ahead=ahead)
    for _ in range(2):
        seen = []
        with pytest.raises(LookupError, match="sample 7"):
            seen.extend(indices.tolist() for indices, _ in loader)
        assert seen == [[0, 1, 2], [3, 4, 5]]


# --- attributes and sizes -------------------------------------------------------------------------------------------


def test_attributes_and_length_are_the_loaders_own() -> None:
    source = KINDS["shuffled"]()
    loader = prepared(source)
    assert (loader.dataset, loader.sampler, loader.batch_size) == (source.dataset, source.sampler, 3)
    assert len(loader) == len(source) == 5
    assert loader.plan.samples == SAMPLES
    with pytest.raises(AttributeError):
        _ = loader.nothing
    with pytest.raises(TypeError):
        len(prepared(DataLoader(Stream(), 3)))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "stream", "sized stream", "list"])
def test_each_batch_is_announced_with_its_number_its_samples_and_whether_it_is_the_last(kind: str, ahead: bool) -> None:
    streams = {"stream": DataLoader(Stream(), 3), "sized stream": DataLoader(SizedStream(), 3)}
    streams["list"] = [torch.zeros(n) for n in (3, 3, 2)]  # type: ignore[assignment]
    cursor = Cursor()
    loader = prepared(streams[kind] if kind in streams else KINDS[kind](), cursor=cursor, looks_ahead=ahead)
    announced = []
    for batch in loader:
        assert cursor.batch is not None
        first = batch if kind == "list" else batch[0]
        if kind not in ("not batched", "drawing eagerly"):
            assert cursor.batch.samples == len(first)
        announced.append(cursor.batch)
    assert cursor.batch is None
    assert [batch.number for batch in announced] == list(range(len(announced)))
    assert [batch.last for batch in announced] == [False] * (len(announced) - 1) + [True]
    if kind != "stream":
        assert len(announced) == len(loader)


# --- nesting --------------------------------------------------------------------------------------------------------


def test_an_inner_loop_gives_the_outer_batch_back() -> None:
    cursor = Cursor()
    outer, inner = prepared(KINDS["in order"](), cursor=cursor), prepared(KINDS["in order"](), cursor=cursor)
    for _ in outer:
        mine = cursor.batch
        for _ in inner:
            assert cursor.batch is not mine
        assert cursor.batch is mine
        for _ in inner:
            break
        assert cursor.batch is mine
    assert cursor.batch is None


def test_loaders_in_step_announce_in_turn_and_leave_nothing_behind() -> None:
    cursor = Cursor()
    one, other = prepared(KINDS["in order"](), cursor=cursor), prepared(KINDS["drop_last"](), cursor=cursor)
    for number, _ in enumerate(zip(one, other)):
        assert cursor.batch is not None
        assert cursor.batch.plan is other.plan or cursor.batch.plan == other.plan
        assert cursor.batch.number == number
    assert cursor.batch is None


@pytest.mark.parametrize("workers", [0, 1])
def test_two_passes_over_one_loader_at_the_same_time(workers: int) -> None:
    loader = prepared(KINDS["in order"](num_workers=workers))
    pairs = [(one[0].tolist(), other[0].tolist()) for one in loader for other in loader]
    batches = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12]]
    assert pairs == [(one, other) for one in batches for other in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_leaving_by_break_and_starting_again_is_as_with_the_plain_loader(workers: int) -> None:
    def run(loader: Any) -> list[Any]:
        seed()
        seen = []
        for stop in (1, 2, 9):
            for number, (indices, _) in enumerate(loader):
                seen.append(indices.tolist())
                if number == stop:
                    break
            seen.append(torch.rand(1).item())
        return seen

    cursor = Cursor()
    assert run(prepared(KINDS["shuffled"](num_workers=workers), cursor=cursor)) == run(
        KINDS["shuffled"](num_workers=workers)
    )
    assert cursor.batch is None


def test_drawing_between_iter_and_next_is_as_with_the_plain_loader() -> None:
    def run(loader: Any) -> list[Any]:
        seed()
        iterator = iter(loader)
        drawn = torch.rand(1).item()
        return [drawn, next(iterator)[0].tolist(), torch.rand(1).item()]

    assert run(prepared(KINDS["shuffled"]())) == run(KINDS["shuffled"]())


def test_before_next_is_called_when_a_batch_is_asked_for_and_before_it_is_fetched() -> None:
    events: list[Any] = []

    class Told(Numbers):
        def __getitem__(self, index: int) -> Any:
            events.append(index)
            return index

    loader = prepared(DataLoader(Told(), 6), before_next=lambda: events.append("asked"))
    for _ in loader:
        events.append("body")
    assert events == ["asked", *range(6), "body", "asked", *range(6, 12), "body", "asked", 12, "body", "asked"]


# --- other sources --------------------------------------------------------------------------------------------------


class Doubling(DataLoader[Any]):
    """A loader with an iteration of its own."""

    def __iter__(self) -> Any:
        for indices, noise in super().__iter__():
            yield 2 * indices, noise


def test_a_subclass_that_iterates_in_its_own_way_is_used_as_it_is() -> None:
    loader = prepared(Doubling(Numbers(noisy=True), 3, shuffle=True))
    assert trained(loader, 2) == trained(Doubling(Numbers(noisy=True), 3, shuffle=True), 2)
    assert sorted(i for indices, _ in loader for i in indices.tolist()) == list(range(0, 2 * SAMPLES, 2))


def test_a_sized_stream_in_this_process_draws_in_exactly_the_plain_order() -> None:
    assert trained(prepared(DataLoader(SizedStream(), 3)), 3) == trained(DataLoader(SizedStream(), 3), 3)


def test_a_stream_with_workers_gives_the_plain_samples() -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Stream(), 3, num_workers=2)

    assert trained(prepared(make()), 2) == trained(make(), 2)


# --- many ranks -----------------------------------------------------------------------------------------------------


class Attendant(Ranks):
    """A rank that really is a process of its own; what the ranks exchange goes through this test's process."""

    def __init__(self, rank: int, count: int, line: Any) -> None:
        super().__init__(rank, rank, count)
        object.__setattr__(self, "line", line)

    def gather(self, value: Any) -> list[Any]:
        self.line.send(("gather", value))  # type: ignore[attr-defined]
        gathered: list[Any] = self.line.recv()  # type: ignore[attr-defined]
        return gathered

    def broadcast(self, value: Any) -> Any:
        return self.gather(value)[0]

    def any(self, flag: bool) -> bool:
        return any(self.gather(flag))


def together(count: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """What `work` gives on each of `count` ranks, or the error that it raised there."""
    fork = multiprocessing.get_context("fork")
    lines, processes = [], []

    def run(rank: int, line: Any) -> None:
        try:
            line.send(("result", work(Attendant(rank, count, line))))
        except Exception as error:
            line.send(("result", error))

    for rank in range(count):
        here, there = fork.Pipe()
        process = fork.Process(target=run, args=(rank, there))
        process.start()
        there.close()
        lines.append(here)
        processes.append(process)
    try:
        while True:
            assert all(line.poll(30) for line in lines), "a rank waits for others that do not come"
            kinds, values = zip(*(line.recv() for line in lines))
            assert len(set(kinds)) == 1, f"some ranks exchange something while others are through: {values}"
            if kinds[0] == "result":
                return list(values)
            for line in lines:
                line.send(list(values))
    finally:
        for process in processes:
            process.terminate()
            process.join()


def by_rank(make: Callable[[], Any], count: int, *, evaluating: bool = False, pad: bool = False) -> list[Any]:
    """Each rank's batches of one pass: (indices, samples that count, last)."""

    def work(ranks: Ranks) -> Any:
        cursor = Cursor(evaluating=evaluating, even=pad)
        loader = prepared(make(), ranks=ranks, cursor=cursor)
        seen = []
        for indices, _ in loader:
            batch = cursor.batch
            assert batch is not None
            seen.append((torch.as_tensor(indices).reshape(-1).tolist(), batch.samples, batch.last))
        if not isinstance(loader.source.dataset, Stream) or hasattr(loader.source.dataset, "__len__"):
            assert len(loader) == len(seen)
        return seen

    results = together(count, work)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def counted(batches: Any) -> list[list[int]]:
    return [indices for indices, samples, _ in batches if samples]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_ranks_see_together_what_one_process_sees_with_a_batch_as_large(count: int) -> None:
    def make(size: int = 2) -> DataLoader[Any]:
        return DataLoader(Numbers(), size, shuffle=True, generator=generator())

    alone = [indices.tolist() for indices, _ in make(2 * count)]
    ranks = by_rank(make, count)
    assert len({len(batches) for batches in ranks}) == 1
    joined = [[i for one in group if one[1] for i in one[0]] for group in zip(*ranks)]
    assert joined == alone
    assert all(batches[-1][2] and not any(last for *_, last in batches[:-1]) for batches in ranks)
    assert all(indices for batches in ranks for indices, *_ in batches)


@pytest.mark.parametrize("kind", ["in order", "shuffled by a generator", "batch sampler", "not batched"])
@pytest.mark.parametrize("count", [2, 4])
def test_in_evaluation_no_sample_occurs_twice(kind: str, count: int) -> None:
    ranks = by_rank(KINDS[kind], count, evaluating=True)
    assert sorted(i for batches in ranks for indices, *_ in batches for i in indices) == list(range(SAMPLES))


def test_padded_evaluation_has_as_many_batches_everywhere_and_no_sample_counts_twice() -> None:
    ranks = by_rank(lambda: DataLoader(Numbers(), 3), 5, evaluating=True, pad=True)
    assert {len(batches) for batches in ranks} == {1}
    tiny = by_rank(lambda: DataLoader(Numbers(), 4, sampler=[0, 1]), 3, evaluating=True, pad=True)
    assert [len(batches) for batches in tiny] == [1, 1, 1]
    assert sorted(i for batches in tiny for indices in counted(batches) for i in indices) == [0, 1]
    bare = by_rank(lambda: DataLoader(Numbers(), 4, sampler=[0, 1]), 3, evaluating=True)
    assert sorted(len(batches) for batches in bare) == [0, 1, 1]


def test_a_custom_batch_samplers_batches_are_dealt_out_and_filled_up_by_weightless_ones() -> None:
    batches = [[0, 1], [2], [3, 4, 5], [6], [7, 8]]
    ranks = by_rank(lambda: DataLoader(Numbers(), batch_sampler=batches), 2)  # type: ignore[arg-type]
    assert [[one[:2] for one in mine] for mine in ranks] == [
        [([0, 1], 2), ([3, 4, 5], 3), ([7, 8], 2)],
        [([2], 1), ([6], 1), ([7, 8], 0)],
    ]


def test_own_distributed_sampler_is_kept_and_told_the_epoch() -> None:
    def work(ranks: Ranks) -> Any:
        sampler = DistributedSampler(range(SAMPLES), ranks.count, ranks.rank, shuffle=True)
        cursor = Cursor()
        loader = prepared(DataLoader(Numbers(), 3, sampler=sampler), ranks=ranks, cursor=cursor)
        assert loader.plan.samples == 14
        orders = []
        for cursor.epoch in range(2):
            orders.append([i for indices, _ in loader for i in indices.tolist()])
            plain = DistributedSampler(range(SAMPLES), ranks.count, ranks.rank, shuffle=True)
            plain.set_epoch(cursor.epoch)
            assert orders[-1] == list(plain)
        cursor.evaluating = True
        evaluated = [i for indices, _ in loader for i in indices.tolist()]
        assert len(loader) == -(-len(evaluated) // 3)
        return evaluated

    assert sorted(i for mine in together(2, work) for i in mine) == list(range(SAMPLES))


def test_an_epoch_set_by_hand_stays() -> None:
    sampler = DistributedSampler(range(SAMPLES), 1, 0)
    loader = prepared(DataLoader(Numbers(), 3, sampler=sampler))
    loader.sampler.set_epoch(7)
    list(loader)
    assert sampler.epoch == 7


class Counting(IterableDataset[Any]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        return ((i, 0.0) for i in range(self.length))


@pytest.mark.parametrize("length", [9, 10, 11, 12, 13])
def test_of_a_stream_each_rank_takes_every_nth_batch(length: int) -> None:
    def work(ranks: Ranks) -> Any:
        cursor = Cursor()
        loader = prepared(DataLoader(Counting(length), 2), ranks=ranks, cursor=cursor)
        seen = []
        for indices, _ in loader:
            assert cursor.batch is not None
            seen.append((indices.tolist(), cursor.batch.samples, cursor.batch.last))
        cursor.evaluating = True
        return seen, [i for indices, _ in loader for i in indices.tolist()]

    results = together(2, work)
    assert len(results[0][0]) == len(results[1][0]) == (length + 3) // 4
    assert [last for *_, last in results[1][0]] == [False] * (len(results[0][0]) - 1) + [True]
    assert sorted(i for seen, _ in results for indices in counted(seen) for i in indices) == list(range(length))
    assert sorted(i for _, evaluated in results for i in evaluated) == list(range(length))


def test_streams_that_shard_themselves_end_together() -> None:
    def work(ranks: Ranks) -> Any:
        cursor = Cursor()
        source = DataLoader(Counting((7, 2)[ranks.rank]), 2)
        loader = prepared(source, ranks=ranks, cursor=cursor, sharded=True)
        return [(indices.tolist(), cursor.batch.samples) for indices, _ in loader]  # type: ignore[union-attr]

    long, short = together(2, work)
    assert long == [([0, 1], 2), ([2, 3], 2), ([4, 5], 2), ([6], 1)]
    assert short == [([0, 1], 2), ([0, 1], 0), ([0, 1], 0), ([0, 1], 0)]


def test_a_rank_without_any_data_is_an_error_on_all_ranks() -> None:
    def work(ranks: Ranks) -> Any:
        source = DataLoader(Counting((4, 0)[ranks.rank]), 2)
        return list(prepared(source, ranks=ranks, sharded=True))

    errors = together(2, work)
    assert all(isinstance(error, UsageError) and "empty" in str(error) for error in errors)


class Private(Sampler[int]):
    """An order that nobody can make the same on two ranks."""

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        order = list(range(SAMPLES))
        random.SystemRandom().shuffle(order)
        return iter(order)


def test_a_sampler_whose_order_differs_by_rank_is_an_error() -> None:
    def work(ranks: Ranks) -> Any:
        return list(prepared(DataLoader(Numbers(), 2, sampler=Private()), ranks=ranks))

    errors = together(2, work)
    assert all(isinstance(error, UsageError) and "Private" in str(error) for error in errors)
