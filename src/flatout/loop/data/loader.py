"""A loader prepared for the loop: batches on the device, announced in the cursor, in an order that can be resumed."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from flatout.errors import CheckpointError
from flatout.loop.cursor import Cursor
from flatout.loop.data.feed import Feed, length_of, length_or_none, plan_of, shards_itself
from flatout.loop.data.indexed import IndexedFeed
from flatout.loop.data.passes import Pass
from flatout.loop.data.prefetch import Copier
from flatout.loop.data.rebuilt import Rebuilt, can_rebuild, parts_of
from flatout.loop.data.seeding import mix
from flatout.loop.data.sharding import EpochPlan
from flatout.loop.data.streamed import StreamFeed, places_itself
from flatout.loop.data.streams import Streams
from flatout.loop.processes.distributed import Ranks


class PreparedLoader:
    """The batches of `source`, each on the device and announced in the cursor before it is handed out.

    `source`: a DataLoader, or any other iterable of batches. The order of its samples, and what it draws from random
    numbers, is as without preparation; with workers each batch is fetched under a seed of its own, made from the seed
    that the DataLoader draws for the pass and the batch's number, so that augmentation depends neither on the number of
    workers nor on where a run was resumed.

    With many ranks, indexed data are cut by `EpochPlan`, or left as they are where the sampler shards itself (a
    `DistributedSampler`); of a stream each rank takes batch number `rank` of every `ranks.count`, unless it is
    `sharded`. In evaluation no sample occurs twice and ranks may have different numbers of batches, unless
    the cursor says `even`: the batches that make up for it then count no samples.

    `before_next` is called when the next batch is asked for, before anything is fetched, also when there is none left;
    it is not called when a pass is left by `break` or an exception. `looks_ahead`: fetch a batch ahead; by default on
    CUDA, where it is also copied ahead, and for streams whose length nobody knows. Anything else is `source`'s.
    """

    def __init__(
        self,
        source: Iterable[Any],
        device: torch.device,
        ranks: Ranks,
        cursor: Cursor,
        *,
        sharded: bool = False,
        before_next: Callable[[], Any] | None = None,
        say: Callable[[str], None] = lambda message: None,
        looks_ahead: bool | None = None,
        copier: Copier | None = None,
    ) -> None:
        self.source: Any = source
        self.before_next: Callable[[], Any] = before_next or (lambda: None)
        self._device = device
        self._ranks = ranks
        self._cursor = cursor
        self._sharded = sharded or shards_itself(source)
        self._say = say
        self._copier = Copier(device) if copier is None and device.type == "cuda" else copier
        self._looks_ahead = self._copier is not None if looks_ahead is None else looks_ahead
        self._rebuilt = Rebuilt(self.source, device) if can_rebuild(self.source) else None
        self._indexed = self._rebuilt is not None and not self._rebuilt.is_stream
        self._streams = Streams(functools.partial(parts_of, self.source))
        self._passes: list[weakref.ref[Pass]] = []  # under way, the newest last
        self._begun = 0
        self._base = 0  # the seed of the first pass
        self._told_epoch = 0
        self._over_in_epoch: int | None = None
        self._pending: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "source":
            raise AttributeError(name)
        return getattr(self.source, name)

    # --- sizes ------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> EpochPlan | None:
        """The sizes of an epoch's batches; None where they are not known before it starts."""
        return plan_of(self.source, self._ranks.count) if self._indexed else None

    @property
    def _fills(self) -> bool:
        return self._cursor.even or not self._cursor.evaluating

    def __len__(self) -> int:
        """The batches of a pass on this rank."""
        rank, ranks, plan = self._ranks.rank, self._ranks.count, self.plan
        length: int = length_of(self.source, without_repeats=ranks > 1 and not self._fills)
        if ranks == 1 or self._sharded:
            return length
        if plan is not None:
            start, end = plan.part_of(plan.batches - 1, rank) if plan.batches else (0, 1)
            return plan.batches - (start == end and not self._fills)
        return -(-length // ranks) if self._fills else len(range(rank, length, ranks))

    # --- iterating --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Pass:
        saved, self._pending = self._pending, None
        if saved is not None and saved["epoch"] != self._cursor.epoch:
            saved = None
        if saved is None:
            self._begun += 1
        self._tell_epoch(saved)
        again = self._rebuilt is not None and self.source.persistent_workers and self._begun > 1
        base = mix(self._base, self._begun) if again else None
        begun = Pass(
            lambda: self._open(base, saved),
            self._streams,
            self._cursor,
            self._device,
            copier=self._copier,
            looks_ahead=self._looks_ahead,
            marks=self._fetches_here,
            saved=saved,
            before_next=lambda: self.before_next(),  # noqa: PLW0108 (it may be set during a pass)
            when_over=self._when_over,
        )
        if self._begun == 1:
            self._base = begun.feed.base
        self._passes.append(weakref.ref(begun))
        return begun

    def _open(self, base: int | None, saved: dict[str, Any] | None) -> Feed:
        if self._indexed:
            assert self._rebuilt is not None
            return IndexedFeed(
                self.source,
                self._rebuilt,
                self._streams,
                self._ranks,
                base=base,
                fill=self._fills,
                saved=saved,
                distinct=self._cursor.evaluating,
            )
        return StreamFeed(
            self.source,
            self._rebuilt,
            self._streams,
            self._ranks,
            base=base,
            fill=self._fills,
            sharded=self._sharded,
            saved=saved,
            say=self._say,
        )

    @property
    def _fetches_here(self) -> bool:
        """Fetching a batch ahead changes what has to be saved: random numbers of this process, a stream's own place."""
        return getattr(self.source, "num_workers", 0) == 0 or places_itself(self.source, self._rebuilt) is not None

    def _tell_epoch(self, saved: dict[str, Any] | None) -> None:
        """`set_epoch` on the user's sampler when the loop's epoch has moved on; it may have been called by hand."""
        epoch = saved["sampler_epoch"] if saved else self._cursor.epoch
        if epoch is not None and (saved or epoch != self._told_epoch):
            for sampler in self._samplers():
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(epoch)
        self._told_epoch = self._cursor.epoch

    def _samplers(self) -> list[Any]:
        batch_sampler = getattr(self.source, "batch_sampler", None)
        return [getattr(self.source, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]

    def _when_over(self, ended: Pass) -> None:
        self._over_in_epoch = ended.epoch
        self._passes = [known for known in self._passes if known() not in (None, ended)]

    def _current(self) -> Pass | None:
        under_way = [known for reference in self._passes if (known := reference()) is not None and not known.over]
        return under_way[-1] if under_way else None

    # --- the position -----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where this rank is, in tensors and plain data: between passes, or in the pass that began last.

        `finished`: no pass is under way, and one was read to its end, or left, in this epoch. The global random number
        streams are the caller's to save and to restore.
        """
        current, position = self._current(), self._pending
        if current is not None:
            epochs = [s.epoch for s in self._samplers() if hasattr(s, "set_epoch") and hasattr(s, "epoch")]
            position = {**current.state(), "sampler_epoch": epochs[0] if epochs else None}
        return {
            "ranks": self._ranks.count,
            "length": length_or_none(self.source),
            "begun": self._begun,
            "base": self._base,
            "finished": position is None and self._over_in_epoch == self._cursor.epoch,
            "generators": self._streams.capture_own(),
            "pass": position,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`: the next pass, if it begins in the same epoch, continues with the batch after the last.

        The caller restores the global random number streams, before or after this but before the pass begins. Beginning
        it disturbs them (the sampler is brought to its place) and puts them back before a batch is fetched. Between
        passes the data and the number of processes may have changed.
        """
        missing = {"ranks", "length", "begun", "base", "finished", "generators", "pass"} - set(state)
        if missing:
            raise CheckpointError(f"loader.load_state_dict(state): not a loader's state, {sorted(missing)} is missing")
        for name, here in (("ranks", self._ranks.count), ("length", length_or_none(self.source))):
            if state["pass"] is not None and state[name] != here:
                raise CheckpointError(
                    f"loader.load_state_dict(state): {name} was {state[name]} in the saved run and is {here} now; "
                    "resume with the same data, batch size and number of processes"
                )
        self._begun, self._base = state["begun"], state["base"]
        self._pending = state["pass"]
        self._over_in_epoch = self._cursor.epoch if state["finished"] else None
        self._streams.restore_own(state["generators"])
