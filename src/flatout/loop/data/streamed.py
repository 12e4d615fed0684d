"""Batches of data that have to be read to be known: iterable datasets, loaders that iterate in their own way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from flatout.errors import CheckpointError, UsageError
from flatout.loop.data.feed import Seeds, count_samples, length_or_none
from flatout.loop.data.rebuilt import Rebuilt
from flatout.loop.data.sharding import Plan
from flatout.loop.data.streams import Streams
from flatout.loop.processes.distributed import Ranks


class StreamFeed:
    """Batches of data that have no indices, as `source` gives them.

    With many ranks each takes batch number `rank` of every `ranks.count`, unless the stream is `sharded` already.
    Resuming reads again what was read before, unless the source can save its own place (`state_dict`).
    """

    def __init__(
        self,
        source: Any,
        rebuilt: Rebuilt | None,
        streams: Streams,
        ranks: Ranks,
        *,
        base: int | None,
        fill: bool,
        sharded: bool,
        saved: dict[str, Any] | None,
        say: Callable[[str], None],
    ) -> None:
        self.start = saved["start"] if saved else streams.capture()
        if saved:
            streams.restore(self.start)
        self.plan: Plan | None = None
        self._ranks = ranks
        self._dealt = ranks.count > 1 and not sharded
        self._fill = fill and ranks.count > 1
        self._last: tuple[Any] | None = None
        self._release: Callable[[bool], None] = lambda broke: None
        self._broke = False
        self._placed = None if self._fill else places_itself(source, rebuilt)
        self._through = bool(saved and saved["feed"]["through"] and not self._fill)
        found = saved["feed"]["source"] if saved else None
        if found is not None and self._placed is not None:
            self._placed.load_state_dict(copy.deepcopy(found))
        self.base = 0 if base is None else base
        if rebuilt is None:
            self._iterator = iter(source)
        else:
            seeds = Seeds(source.generator)
            if base is None:
                self.base = seeds.draw()
            else:
                seeds.peek()
            self._iterator, self._release = rebuilt.iterate(iter(()), seeds.before)
        trusted = rebuilt is None or source.num_workers == 0
        length = length_or_none(source) if trusted and not self._fill else None
        self.batches = length if length is None or not self._dealt else len(range(ranks.rank, length, ranks.count))
        if self._through:
            self.close()
        elif saved and saved["handed"] and (found is None or self._placed is None):
            self._read_again(saved["handed"], say)

    def begin(self) -> None:
        """The stream has begun already: where it is depends on what it was begun under."""

    def _read_again(self, handed: int, say: Callable[[str], None]) -> None:
        say(f"resuming: reading {handed} batches again, for these data have no indices to skip by")
        for number in range(handed):
            try:
                self._last = (self._round()[0],)
            except StopIteration:
                if self._ranks.count == 1:
                    raise CheckpointError(
                        f"resuming: the saved run had taken {handed} batches of this loader, but it ends after "
                        f"{number}; resume with the same data and batch size"
                    ) from None
                return

    def _round(self) -> tuple[Any, int | None]:
        """The next batch for this rank."""
        try:
            return self._read()
        except StopIteration:
            self._through = True
            raise
        except BaseException:
            self._broke = True
            raise

    def _read(self) -> tuple[Any, int | None]:
        if not self._dealt:
            batch = next(self._iterator)
            return batch, count_samples(batch)
        read = [batch for _, batch in zip(range(self._ranks.count), self._iterator)]
        if len(read) > self._ranks.rank:
            return read[self._ranks.rank], count_samples(read[self._ranks.rank])
        if read and self._fill:
            return read[0], 0
        raise StopIteration

    def fetch(self) -> tuple[Any, int | None]:
        """The next batch and how many of its samples count. Where all ranks must take part they end together."""
        if not self._fill:
            return self._round()
        try:
            mine: tuple[Any, int | None] | None = self._round()
        except StopIteration:
            mine = None
        first = self._last is None
        if first and mine is None and True in self._ranks.gather(False):
            raise UsageError("iterating over a prepared loader: this rank's part of the data is empty")
        if first and mine is not None and False in self._ranks.gather(True):
            raise UsageError("iterating over a prepared loader: another rank's part of the data is empty")
        if not first and not self._ranks.any(mine is not None):
            raise StopIteration
        if mine is None:
            if self._last is None:
                raise StopIteration
            return self._last[0], 0
        self._last = (mine[0],)
        return mine

    def state(self) -> dict[str, Any]:
        """The source's own place, where it keeps one, and whether it has nothing more to give."""
        if self._placed is None:
            return {"source": None, "through": self._through}
        fetcher = getattr(self._iterator, "_dataset_fetcher", None)  # it met the end in a short last batch
        through = self._through or getattr(fetcher, "ended", False)
        return {"source": copy.deepcopy(self._placed.state_dict()), "through": through}

    def close(self) -> None:
        """Let the workers go."""
        self._iterator = iter(())
        self._release(self._broke)


def places_itself(source: Any, rebuilt: Rebuilt | None) -> Any:
    """What saves the stream's place itself: the loader, or its dataset in this process."""
    keeper = source if rebuilt is None else source.dataset if source.num_workers == 0 else None
    able = hasattr(keeper, "state_dict") and hasattr(keeper, "load_state_dict")
    return keeper if able else None
