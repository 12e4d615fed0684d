"""A loader's position: saved in mid-epoch, loaded elsewhere, continued bit for bit."""

from __future__ import annotations

import io
import random
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

from flatout.errors import CheckpointError
from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.data.streams import capture_rng, restore_rng, same_state
from flatout.loop.processes.distributed import Ranks

CPU = torch.device("cpu")
SAMPLES = 13


class Noisy(Dataset[Any]):
    """Draws from the three global streams and from a generator of its own; `fetched` says what was loaded."""

    def __init__(self, *, length: int = SAMPLES, own: bool = True) -> None:
        self.length = length
        self.own = np.random.default_rng(9) if own else None
        self.fetched: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        self.fetched.append(index)
        draws = [random.random(), np.random.randn(), torch.rand(()).item()]
        return index, torch.tensor([*draws, self.own.random() if self.own else 0.0], dtype=torch.float64)


class InTurns(Sampler[int]):
    """Shuffles by chunks, each when its turn comes, from the global stream that the dataset draws from too."""

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        for start in range(0, SAMPLES, 5):
            chunk = list(range(start, min(start + 5, SAMPLES)))
            random.shuffle(chunk)
            yield from chunk


class OwnRandom(Sampler[int]):
    """Keeps a generator from epoch to epoch."""

    def __init__(self) -> None:
        self.rng = random.Random(4)

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        order = list(range(SAMPLES))
        self.rng.shuffle(order)
        return iter(order)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


KINDS: dict[str, Callable[..., DataLoader[Any]]] = {
    "in order": lambda **o: DataLoader(Noisy(), 3, **o),
    "shuffled": lambda **o: DataLoader(Noisy(), 3, shuffle=True, **o),
    "generator": lambda **o: DataLoader(Noisy(), 3, shuffle=True, generator=generator(), **o),
    "drop_last": lambda **o: DataLoader(Noisy(), 3, shuffle=True, generator=generator(), drop_last=True, **o),
    "weighted": lambda **o: DataLoader(Noisy(), 3, sampler=WeightedRandomSampler(range(1, 14), SAMPLES), **o),
    "subset": lambda **o: DataLoader(Noisy(), 2, sampler=SubsetRandomSampler(range(2, 12)), **o),
    "replacement": lambda **o: DataLoader(
        Noisy(), 20, sampler=RandomSampler(range(SAMPLES), replacement=True, num_samples=110), **o
    ),
    "replacement by a generator": lambda **o: DataLoader(
        Noisy(), 20, sampler=RandomSampler(range(SAMPLES), True, 110, generator()), **o
    ),
    "batch sampler": lambda **o: DataLoader(
        Noisy(), batch_sampler=BatchSampler(SubsetRandomSampler(range(SAMPLES)), 3, False), **o
    ),
    "not batched": lambda **o: DataLoader(Noisy(length=6), None, shuffle=True, **o),
    "in turns": lambda **o: DataLoader(Noisy(), 3, sampler=InTurns(), **o),
    "own random": lambda **o: DataLoader(Noisy(), 3, sampler=OwnRandom(), **o),
    "distributed": lambda **o: DataLoader(Noisy(), 3, sampler=DistributedSampler(range(SAMPLES), 1, 0), **o),
}


def through_a_file(state: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


class Run:
    """A training that draws random numbers itself, and can be saved when a batch is asked for."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.cursor = Cursor()
        self.seen: list[Any] = []
        self.handed = 0
        self.saved: list[tuple[int, Any]] = []  # how much was seen when it was saved
        self.save_before: Callable[[int], bool] = lambda handed: False
        self.loader = PreparedLoader(source, CPU, Ranks(), self.cursor, before_next=self.asked, **options)

    def asked(self) -> None:
        if self.save_before(self.handed):
            self.save()

    def save(self) -> None:
        state = {"rng": capture_rng(CPU), "epoch": self.cursor.epoch, "loader": self.loader.state_dict()}
        self.saved.append((len(self.seen), through_a_file(state)))

    def load(self, state: Any) -> None:
        self.cursor.epoch = state["epoch"]
        restore_rng(state["rng"], CPU)
        self.loader.load_state_dict(state["loader"])

    def train(self, epochs: int) -> None:
        while self.cursor.epoch < epochs:
            self.handed = 0
            for batch in self.loader:
                self.handed += 1
                indices, noise = batch
                assert self.cursor.batch is not None
                self.seen.append((torch.as_tensor(indices).tolist(), noise.tolist(), self.cursor.batch.number))
                self.seen.append((random.random(), np.random.rand(), torch.rand(3).tolist(), self.cursor.batch.last))
            self.seen.append(("after the epoch", random.random(), np.random.rand(), torch.rand(1).item()))
            self.cursor.epoch += 1


def seed(number: int = 0) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def check(make: Callable[[], Any], *, epochs: tuple[int, ...] = (0, 2), **options: Any) -> None:
    """Save before every batch of `epochs` (and after the last), resume from each: everything after it is equal."""
    seed(1)
    run = Run(make(), **options)
    run.save_before = lambda handed: run.cursor.epoch in epochs
    run.train(max(epochs) + 2)
    end = capture_rng(CPU)
    undisturbed = run.seen
    seed(1)
    alone = Run(make(), **options)
    alone.train(max(epochs) + 2)
    assert alone.seen == undisturbed  # saving changes nothing
    assert len(run.saved) >= 2 * len(epochs)
    for position, state in run.saved:
        seed(77)
        resumed = Run(make(), **options)
        torch.rand(5)
        resumed.load(state)
        resumed.train(max(epochs) + 2)
        assert resumed.seen == undisturbed[position:]
        assert same_state(capture_rng(CPU), end)
        del resumed


@pytest.mark.parametrize("kind", KINDS)
def test_without_workers(kind: str) -> None:
    check(KINDS[kind])


@pytest.mark.parametrize("kind", ["shuffled", "generator", "replacement by a generator", "in turns"])
def test_with_workers(kind: str) -> None:
    check(lambda: KINDS[kind](num_workers=2), epochs=(0, 2) if kind == "shuffled" else (1,))


def test_with_workers_that_the_user_keeps() -> None:
    check(lambda: KINDS["shuffled"](num_workers=1, persistent_workers=True))


@pytest.mark.parametrize("kind", ["in order", "shuffled", "generator", "batch sampler", "in turns", "not batched"])
def test_a_batch_ahead(kind: str) -> None:
    check(KINDS[kind], looks_ahead=True)


def test_a_batch_ahead_with_workers() -> None:
    check(lambda: KINDS["generator"](num_workers=2), epochs=(1,), looks_ahead=True)


def test_what_was_read_is_not_loaded_again() -> None:
    seed()
    run = Run(KINDS["shuffled"]())
    run.save_before = lambda handed: handed == 3
    run.train(1)
    resumed = Run(KINDS["shuffled"]())
    resumed.load(run.saved[0][1])
    resumed.train(1)
    assert len(resumed.loader.dataset.fetched) == SAMPLES - 9


def test_a_run_that_fetched_ahead_goes_on_where_nothing_is_fetched_ahead() -> None:
    """As when a run moves from a GPU to a CPU; it is saved again there."""
    seed()
    run = Run(KINDS["shuffled"](), looks_ahead=True)
    run.save_before = lambda handed: handed == 2
    run.train(1)
    resumed = Run(KINDS["shuffled"]())
    resumed.load(run.saved[0][1])
    resumed.save_before = lambda handed: handed == 2
    resumed.train(1)
    order = [batch[0] for batch in run.seen[::2]]
    assert [batch[0] for batch in resumed.seen[::2]] == order[2:]
    position, state = resumed.saved[0]
    again = Run(KINDS["shuffled"]())
    again.load(state)
    again.train(1)
    assert again.seen == resumed.seen[position:]


def test_the_number_of_workers_may_change() -> None:
    seed()
    run = Run(KINDS["generator"](num_workers=1))
    run.save_before = lambda handed: handed == 2
    run.train(2)
    position, state = run.saved[0]
    resumed = Run(KINDS["generator"](num_workers=2))
    resumed.load(state)
    resumed.train(2)
    assert resumed.seen == run.seen[position:]


# --- streams --------------------------------------------------------------------------------------------------------


class Stream(IterableDataset[Any]):
    def __init__(self, length: int = SAMPLES) -> None:
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        for index in np.random.permutation(self.length).tolist():
            yield index, torch.rand(2, dtype=torch.float64)


class SizedStream(Stream):
    def __len__(self) -> int:
        return SAMPLES


class Placed(IterableDataset[Any]):
    """A stream that can save its place."""

    def __init__(self, length: int = SAMPLES) -> None:
        self.length = length
        self.position = 0
        self.read = 0

    def state_dict(self) -> Any:
        return {"position": self.position}

    def load_state_dict(self, state: Any) -> None:
        self.position = state["position"]

    def __iter__(self) -> Iterator[Any]:
        while self.position < self.length:
            self.position += 1
            self.read += 1
            yield self.position, torch.rand(1)
        self.position = 0


class SizedPlaced(Placed):
    def __len__(self) -> int:
        return self.length


class OwnLoader(DataLoader[Any]):
    def __iter__(self) -> Any:
        for indices, noise in super().__iter__():
            yield -indices, noise


STREAMS: dict[str, Callable[[], Any]] = {
    "stream": lambda: DataLoader(Stream(), 3),
    "sized": lambda: DataLoader(SizedStream(), 3),
    "workers": lambda: DataLoader(Stream(), 3, num_workers=2),
    "own loader": lambda: OwnLoader(Noisy(own=False), 3, shuffle=True),
    "placed": lambda: DataLoader(Placed(), 3),
    "placed, whole batches": lambda: DataLoader(Placed(12), 3),
    "placed and sized": lambda: DataLoader(SizedPlaced(), 3),
    "placed and sized, whole batches": lambda: DataLoader(SizedPlaced(12), 3),
    "list": lambda: [(torch.tensor([i]), torch.zeros(1)) for i in range(5)],
}


@pytest.mark.parametrize("kind", STREAMS)
def test_streams(kind: str) -> None:
    check(STREAMS[kind], epochs=(1,))


def test_reading_a_stream_again_is_said_and_one_that_keeps_its_place_is_not_read_again() -> None:
    for kind, expected in (("sized", 1), ("placed", 0)):
        said: list[str] = []
        run = Run(STREAMS[kind]())
        run.save_before = lambda handed: handed == 2
        run.train(1)
        resumed = Run(STREAMS[kind](), say=said.append)
        resumed.load(run.saved[0][1])
        resumed.train(1)
        assert len(said) == expected
        if kind == "placed":
            assert resumed.loader.dataset.read <= SAMPLES - 6
        else:
            assert "reading 2 batches again" in said[0]


# --- between passes -------------------------------------------------------------------------------------------------


def test_saved_after_an_epoch_the_next_pass_is_a_whole_one() -> None:
    seed()
    run = Run(KINDS["generator"]())
    run.train(1)
    run.save()
    position, state = run.saved[0]
    run.train(2)
    resumed = Run(KINDS["generator"]())
    resumed.load(state)
    resumed.train(2)
    assert resumed.seen == run.seen[position:]


def test_finished_tells_whether_the_epochs_pass_is_over() -> None:
    run = Run(KINDS["in order"]())
    assert run.loader.state_dict()["finished"] is False
    iterator = iter(run.loader)
    assert run.loader.state_dict()["finished"] is False
    assert run.loader.state_dict()["pass"]["handed"] == 0
    for _ in iterator:
        assert run.loader.state_dict()["finished"] is False
    state = run.loader.state_dict()
    assert (state["finished"], state["pass"]) == (True, None)
    run.cursor.epoch = 1
    assert run.loader.state_dict()["finished"] is False


def test_saved_in_the_last_batch_nothing_is_left_of_the_epoch() -> None:
    run = Run(KINDS["shuffled"]())
    for _ in run.loader:
        state = run.loader.state_dict()
    resumed = Run(KINDS["shuffled"]())
    resumed.loader.load_state_dict(through_a_file(state))
    assert list(resumed.loader) == []
    assert len(list(resumed.loader)) == 5


def test_saved_between_loading_and_going_on_it_is_the_same_place() -> None:
    run = Run(KINDS["shuffled"]())
    run.save_before = lambda handed: handed == 2
    run.train(1)
    resumed = Run(KINDS["shuffled"]())
    resumed.load(run.saved[0][1])
    assert same_state(through_a_file(resumed.loader.state_dict()), run.saved[0][1]["loader"])


def test_a_pass_is_continued_in_its_own_epoch_only() -> None:
    run = Run(KINDS["shuffled"]())
    run.save_before = lambda handed: handed == 2
    run.train(1)
    resumed = Run(KINDS["shuffled"]())
    resumed.load(run.saved[0][1])
    resumed.cursor.epoch = 1
    assert len(list(resumed.loader)) == 5


def test_the_inner_of_two_passes_is_the_one_that_is_saved_and_then_the_outer_again() -> None:
    run = Run(KINDS["in order"]())
    outer = iter(run.loader)
    next(outer)
    for number, _ in enumerate(run.loader):
        assert run.loader.state_dict()["pass"]["handed"] == number + 1
    assert run.loader.state_dict()["pass"]["handed"] == 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_many_ranks_the_part_of_this_rank_goes_on(ranks: int) -> None:
    """The exchange is left out: with a sequential sampler, or when resuming, there is none."""

    class Broadcasting(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [value] * self.count

        def broadcast(self, value: Any) -> Any:
            return value

    for rank in range(ranks):
        me = Broadcasting(rank, rank, ranks)

        def make(me: Ranks = me) -> PreparedLoader:
            return PreparedLoader(KINDS["generator"](), CPU, me, Cursor())

        loader = make()
        expected, states = [], []
        for indices, _ in loader:
            states.append(through_a_file(loader.state_dict()))
            expected.append(indices.tolist())
        for number, state in enumerate(states, start=1):
            resumed = make()
            resumed.load_state_dict(state)
            assert [indices.tolist() for indices, _ in resumed] == expected[number:]


# --- what does not fit ----------------------------------------------------------------------------------------------


def test_a_state_of_other_data_is_refused() -> None:
    loader = Run(KINDS["in order"]()).loader
    between, under_way = loader.state_dict(), iter(loader)
    next(under_way)
    state = loader.state_dict()
    other = Run(DataLoader(Noisy(length=40), 3)).loader
    with pytest.raises(CheckpointError, match=r"load_state_dict\(state\): length was 5"):
        other.load_state_dict(state)
    with pytest.raises(CheckpointError, match="ranks was 2"):
        other.load_state_dict({**state, "ranks": 2})
    with pytest.raises(CheckpointError, match="not a loader's state"):
        other.load_state_dict({"epoch": 3})
    other.load_state_dict(between)  # the next epoch may have other data


def test_a_stream_that_has_become_shorter_is_an_error() -> None:
    run = Run(STREAMS["stream"]())
    run.save_before = lambda handed: handed == 4
    run.train(1)
    resumed = Run(DataLoader(Stream(2), 3))
    resumed.load(run.saved[0][1])
    with pytest.raises(CheckpointError, match="ends after 1"):
        resumed.train(1)
