"""One pass over a prepared loader: batches are fetched, moved and announced; the place can be saved at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flatout.loop.cursor import Batch, Cursor
from flatout.loop.data.feed import Feed
from flatout.loop.data.prefetch import Ahead, Copier, Sent
from flatout.loop.data.streams import Streams
from flatout.loop.device import move


class Pass:
    """The iterator of a `PreparedLoader`.

    `looks_ahead`: the next batch is fetched before the one in hand is worked on. `marks`: the fetching draws from this
    process's random numbers, so that their state before it has to be kept.

    Resuming: `open_feed` makes the sampler (or the stream) what it was under the random numbers that the pass had
    started with. Then everything that the caller had restored is put back, and only then is the next batch fetched.
    """

    def __init__(
        self,
        open_feed: Callable[[], Feed],
        streams: Streams,
        cursor: Cursor,
        device: torch.device,
        *,
        copier: Copier | None,
        looks_ahead: bool,
        marks: bool,
        saved: dict[str, Any] | None,
        before_next: Callable[[], Any],
        when_over: Callable[[Pass], None],
    ) -> None:
        self._streams = streams
        self._cursor = cursor
        self._copier = copier
        self._before_next = before_next
        self._when_over = when_over
        self._mark: dict[str, Any] | None = None
        self._place = object()  # for the cursor, which must not keep a pass alive that nobody iterates any more
        self.over = True
        self.epoch = cursor.epoch
        self.handed = saved["handed"] if saved else 0
        callers = streams.capture() if saved else None
        try:
            self.feed = open_feed()
            self._ahead = Ahead(_puller(self.feed, copier, device))
            self._looks_ahead = looks_ahead or self.feed.batches is None
            self._marks = marks and self._looks_ahead
            if saved and marks and saved["mark"] is not None:
                self.feed.begin()
                streams.restore(saved["mark"])
                self._take_mark()
                self._ahead.fill()
        finally:
            if callers is not None:
                streams.restore(callers)
        self.feed.begin()
        self.over = False

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        self._cursor.ask(self._place)
        self._before_next()
        if self.over:
            raise StopIteration
        try:
            sent, samples = self._ahead.take()
            self._mark = None
            if self._looks_ahead:
                if self._marks:
                    self._take_mark()
                self._ahead.fill()
        except BaseException as error:
            try:
                if isinstance(error, StopIteration):
                    self._cursor.read(self._place)
            finally:
                self.close()
            raise
        last = self._ahead.ended if self._looks_ahead else self.handed + 1 == self.feed.batches
        self._cursor.announce(self._place, Batch(self.handed, samples, last, self.feed.plan))
        self.handed += 1
        return sent.batch if self._copier is None else self._copier.receive(sent)

    def _take_mark(self) -> None:
        self._mark = {"streams": self._streams.snapshot(), "feed": self.feed.state()}

    def state(self) -> dict[str, Any]:
        """Where this pass is; see `PreparedLoader.state_dict`."""
        mark = None if self._ahead.ended else self._mark  # at the end nothing will be fetched under it
        return {
            "epoch": self.epoch,
            "handed": self.handed,
            "batches": self.feed.batches,
            "start": self.feed.start,
            "feed": mark["feed"] if mark else self.feed.state(),
            "mark": self._streams.as_plain(mark["streams"]) if mark else None,
        }

    def close(self) -> None:
        """The pass is over, read to its end or left."""
        if not self.over:
            self.over = True
            self.feed.close()
            self._cursor.leave(self._place)
            self._when_over(self)

    def __del__(self) -> None:
        self.close()


def _puller(feed: Feed, copier: Copier | None, device: torch.device) -> Callable[[], tuple[Sent, int | None]]:
    """Fetches a batch and starts its move. Knows nothing of the pass, which ends as soon as nobody holds it."""

    def pull() -> tuple[Sent, int | None]:
        batch, samples = feed.fetch()
        return (Sent(move(batch, device), None) if copier is None else copier.send(batch)), samples

    return pull
