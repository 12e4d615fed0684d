"""Copying ahead: order, arrival, sources that are held, errors in their turn.

Without a GPU the real code runs on streams and events of a kind that a test can look into: a copy on the side stream is
put off until something waits for it, and reads its source only then, if the source is still there.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.data.prefetch import Ahead, Copier, tensors_in
from flatout.loop.processes.distributed import Ranks

CPU = torch.device("cpu")
EMPTY = -1.0  # what memory holds that nothing has been copied to


class Stream:
    """Work that is put off."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self.waited: list[Event] = []

    def run(self, until: Event) -> None:
        while not until.done:
            self.work.popleft()()

    def wait_event(self, event: Event) -> None:
        self.waited.append(event)
        assert event.stream is not None
        event.stream.run(event)


class Event:
    def __init__(self) -> None:
        self.done = False
        self.stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.work.append(lambda: setattr(self, "done", True))

    def query(self) -> bool:
        return self.done


class Machinery:
    """What `torch.cuda` is to a `Copier`."""

    Event = Event

    def __init__(self) -> None:
        self.main = Stream()
        self.now = self.main
        self.side: Stream | None = None

    def Stream(self, device: torch.device) -> Stream:
        self.side = Stream()
        return self.side

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before

    def current_stream(self, device: torch.device) -> Stream:
        return self.now


class Pinned(torch.Tensor):
    """A host's tensor whose copy is put off on the current stream. It reads the source when it is carried out."""

    machinery: Machinery
    recorded: list[Stream]

    def to(self, device: Any, non_blocking: bool = False) -> torch.Tensor:
        assert non_blocking
        target = torch.full_like(torch.Tensor(self), EMPTY).as_subclass(Copied)
        target.recorded = []
        source = weakref.ref(self)

        def copy() -> None:
            still_there = source()
            if still_there is not None:
                torch.Tensor(target).copy_(torch.Tensor(still_there))

        self.machinery.now.work.append(copy)
        return target


class Copied(torch.Tensor):
    recorded: list[Stream]

    def record_stream(self, stream: Any) -> None:
        self.recorded.append(stream)


@pytest.fixture
def machinery() -> Machinery:
    return Machinery()


def pinned(value: float, machinery: Machinery) -> Pinned:
    tensor = torch.full((2,), value).as_subclass(Pinned)
    tensor.machinery = machinery
    return tensor


def test_a_batch_is_there_when_it_is_received_and_not_before(machinery: Machinery) -> None:
    copier = Copier(CPU, machinery)
    sent = copier.send({"x": pinned(3, machinery), "name": "a"})
    assert torch.Tensor(sent.batch["x"]).tolist() == [EMPTY, EMPTY]
    received = copier.receive(sent)
    assert torch.Tensor(received["x"]).tolist() == [3, 3]
    assert received["name"] == "a"
    assert machinery.main.waited == [sent.arrived]


def test_the_memory_is_marked_as_used_by_the_training_stream(machinery: Machinery) -> None:
    copier = Copier(CPU, machinery)
    received = copier.receive(copier.send([pinned(1, machinery), {"y": pinned(2, machinery)}]))
    assert received[0].recorded == received[1]["y"].recorded == [machinery.main]


def test_a_source_is_held_until_its_copy_is_done_and_no_longer(machinery: Machinery) -> None:
    copier = Copier(CPU, machinery)
    tensor = pinned(4, machinery)
    source = weakref.ref(tensor)
    sent = copier.send([tensor])
    del tensor
    gc.collect()
    copier.let_go()
    assert source() is not None
    assert torch.Tensor(copier.receive(sent)[0]).tolist() == [4, 4]
    copier.let_go()
    gc.collect()
    assert source() is None


class MovesInPlace(dict[str, Any]):
    """As the batches of some tokenizers: `to` changes the batch itself."""

    def to(self, device: Any, non_blocking: bool = False) -> MovesInPlace:
        for key, value in self.items():
            self[key] = value.to(device, non_blocking=non_blocking)
        return self


def test_the_source_of_a_batch_that_moves_itself_in_place_is_held_too(machinery: Machinery) -> None:
    copier = Copier(CPU, machinery)
    sent = copier.send(MovesInPlace(x=pinned(5, machinery)))
    gc.collect()
    assert torch.Tensor(copier.receive(sent)["x"]).tolist() == [5, 5]


class Opaque:
    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def to(self, device: Any, non_blocking: bool = False) -> Opaque:
        assert not non_blocking
        return self


def test_an_object_that_cannot_be_looked_into_is_copied_on_the_training_stream(machinery: Machinery) -> None:
    copier = Copier(CPU, machinery)
    sent = copier.send([Opaque(torch.zeros(1))])
    assert sent.arrived is None
    assert isinstance(copier.receive(sent)[0], Opaque)


@dataclass
class Pair:
    x: torch.Tensor
    name: str


def test_tensors_are_found_where_move_finds_them() -> None:
    one, two, three = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert tensors_in(({"a": [one, "b"]}, Pair(two, "c"), None, 3, (three,))) == [one, two, three]
    assert tensors_in("text") == []
    assert tensors_in([one, Opaque(one)]) is None


# --- pulling ahead --------------------------------------------------------------------------------------------------


def test_ahead_knows_the_end_before_it_is_reached() -> None:
    pulled = iter([1, 2])
    ahead = Ahead(lambda: next(pulled))
    assert ahead.take() == 1
    assert not ahead.ended
    ahead.fill()
    assert not ahead.ended
    assert ahead.take() == 2
    ahead.fill()
    assert ahead.ended
    for _ in range(2):
        with pytest.raises(StopIteration):
            ahead.take()


def test_an_error_comes_in_its_turn() -> None:
    def pull() -> Iterator[int]:
        yield 1
        raise LookupError("the second")

    pulled = pull()
    ahead = Ahead(lambda: next(pulled))
    assert ahead.take() == 1
    ahead.fill()
    assert not ahead.ended
    with pytest.raises(LookupError, match="the second"):
        ahead.take()


def test_an_interrupt_is_not_kept_for_later() -> None:
    def pull() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ahead(pull).fill()


# --- a loader that copies ahead -------------------------------------------------------------------------------------


def test_a_loader_hands_out_what_has_arrived_while_the_next_batch_is_on_its_way(machinery: Machinery) -> None:
    cursor = Cursor()
    source = [pinned(number, machinery) for number in range(4)]
    loader = PreparedLoader(source, CPU, Ranks(), cursor, copier=Copier(CPU, machinery))
    for number, batch in enumerate(loader):
        assert torch.Tensor(batch).tolist() == [number, number]
        assert cursor.batch is not None
        assert (cursor.batch.number, cursor.batch.last) == (number, number == 3)
        assert machinery.side is not None
        assert bool(machinery.side.work) == (number < 3)


def test_a_pass_left_early_drops_the_batch_on_its_way_and_the_next_one_starts_anew(machinery: Machinery) -> None:
    source = [pinned(number, machinery) for number in range(4)]
    loader = PreparedLoader(source, CPU, Ranks(), Cursor(), copier=Copier(CPU, machinery))
    for batch in loader:
        assert torch.Tensor(batch).tolist() == [0, 0]
        break
    assert [torch.Tensor(batch)[0].item() for batch in loader] == [0, 1, 2, 3]


def test_on_a_cpu_nothing_is_copied_and_nothing_fetched_ahead() -> None:
    fetched: list[int] = []

    def collate(batch: Any) -> Any:
        fetched.append(len(fetched))
        return batch[0][0]

    data = torch.arange(3.0)
    loader = PreparedLoader(DataLoader(TensorDataset(data), 1, collate_fn=collate), CPU, Ranks(), Cursor())
    for number, batch in enumerate(loader):
        assert fetched[-1] == number
        assert batch.data_ptr() == data[number].data_ptr()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: real streams and events")
@pytest.mark.parametrize("workers", [0, 2])
def test_on_a_gpu_every_batch_is_whole_also_while_the_gpu_is_busy(workers: int) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    data = torch.arange(64.0).reshape(64, 1).expand(64, 1 << 18).contiguous()
    source = DataLoader(TensorDataset(data), 4, shuffle=True, num_workers=workers)
    loader = PreparedLoader(source, device, Ranks(), Cursor())
    busy = torch.randn(4096, 4096, device=device)
    for _ in range(3):
        sums = []
        for (batch,) in loader:
            busy = (busy @ busy).clamp(-1, 1)  # the training stream lags behind the host
            sums.append(batch.double().sum(1))
            del batch
        rows = torch.cat(sums).cpu() / (1 << 18)
        assert sorted(rows.tolist()) == list(range(64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: pinned memory")
def test_on_a_gpu_batches_come_from_pinned_memory_and_the_order_is_the_plain_one() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    data = TensorDataset(torch.arange(20))
    torch.manual_seed(0)
    plain = [batch.tolist() for (batch,) in DataLoader(data, 3, shuffle=True)]
    torch.manual_seed(0)
    loader = PreparedLoader(DataLoader(data, 3, shuffle=True), device, Ranks(), Cursor())
    batches = [batch for (batch,) in loader]
    assert all(batch.device == device for batch in batches)
    assert [batch.tolist() for batch in batches] == plain
