"""The user's DataLoader with another order in it: the same dataset, collating and workers, which are kept alive."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe

from flatout.loop.data.inside import fingerprint
from flatout.loop.data.seeding import WorkerStart


def can_rebuild(source: Any) -> bool:
    """Whether `source` iterates as PyTorch's DataLoader does, so that another one does the same from its parts."""
    kind = type(source)
    return (
        isinstance(source, DataLoader)
        and kind.__iter__ is DataLoader.__iter__
        and kind._get_iterator is DataLoader._get_iterator
        and not isinstance(source.dataset, IterDataPipe | MapDataPipe)
        and getattr(source, "worker_method", "multiprocessing") == "multiprocessing"
    )


def parts_of(source: Any) -> dict[str, Any]:
    """What a DataLoader is made of, for looking into; anything else is looked into itself."""
    if not can_rebuild(source):
        return {"loader": source}
    return {
        "generator": source.generator,
        "batch_sampler": source.batch_sampler,
        "sampler": source.sampler,
        **_fetching(source),
    }


def _fetching(source: Any) -> dict[str, Any]:
    return {"dataset": source.dataset, "collate_fn": source.collate_fn}


_kept: dict[int, DataLoader[Any]] = {}
"""Loaders with living workers, by the `Rebuilt` that they belong to.

Not its attribute: Python's collector of cyclic garbage takes the queues to the workers apart before the iterator says
good-bye through them, which then waits seconds for each worker. From here a loader is let go of by counting.
"""


class Rebuilt:
    """Makes DataLoader iterators over given indices.

    Where the user's loader starts its workers afresh for every pass, these are kept from pass to pass, unless the user
    has changed the dataset in between: the workers hold copies of it. `in_order=False` is not followed: which samples a
    batch holds has to be known before it is fetched.
    """

    def __init__(self, source: Any, device: torch.device) -> None:
        self._source = source
        self._device = device
        self._slot = _Slot()
        self._busy = False
        self._print: Any = None
        self._process = os.getpid()

    @property
    def is_stream(self) -> bool:
        """The data have no indices: they come as an iterable dataset gives them."""
        return isinstance(self._source.dataset, IterableDataset)

    def iterate(self, order: Iterator[Any], seeds: torch.Tensor) -> tuple[Iterator[Any], Callable[[bool], None]]:
        """An iterator over the batches of `order`, and what to call, with whether it broke, when it is done with.

        `seeds`: the state of the generator that the workers' base seed is drawn from.
        """
        generator = torch.Generator()
        generator.set_state(seeds)
        keep = self._source.num_workers > 0 and (not self.is_stream or self._source.persistent_workers)
        if not keep or self._busy:
            return iter(self._build(_Slot(order), generator, keep=False)), lambda broke: None
        now = fingerprint({**_fetching(self._source), "init": self._source.worker_init_fn})
        if now != self._print and not self._source.persistent_workers:
            self._let_go()
        if id(self) not in _kept:
            _kept[id(self)] = self._build(self._slot, generator, keep=True)
        self._print, self._busy, self._slot.order = now, True, order
        try:
            return iter(_kept[id(self)]), self._release
        except BaseException:
            self._release(True)
            raise

    def _release(self, broke: bool) -> None:
        self._busy = False
        self._slot.order = iter(())
        if broke:
            self._let_go()

    def _let_go(self) -> None:
        loader = _kept.pop(id(self), None)
        iterator: Any = None if loader is None else loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()  # now, also where the traceback of an error holds it

    def __del__(self) -> None:
        if os.getpid() == self._process:  # a forked process must not send its parent's workers home
            self._let_go()

    def _build(self, slot: _Slot, generator: torch.Generator, *, keep: bool) -> DataLoader[Any]:
        source, start = self._source, self._source.worker_init_fn
        indexed: dict[str, Any] = {"batch_size": source.batch_size, "drop_last": source.drop_last}
        if not self.is_stream:
            indexed = {"batch_sampler": slot} if source.batch_sampler is not None else {"batch_size": None}
            if source.batch_sampler is None:
                indexed["sampler"] = slot
            if source.num_workers:
                start = WorkerStart(start, _fetching(source))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of too many workers: the user's own loader has said so
            return DataLoader(
                source.dataset,
                num_workers=source.num_workers,
                collate_fn=source.collate_fn,
                pin_memory=self._device.type == "cuda",
                timeout=source.timeout,
                worker_init_fn=start,
                multiprocessing_context=source.multiprocessing_context,
                generator=generator,
                prefetch_factor=source.prefetch_factor,
                persistent_workers=keep,
                **indexed,
            )


class _Slot:
    """A sampler whose order is put in for each pass. The DataLoader may ask for its iterator more than once."""

    def __init__(self, order: Iterator[Any] | None = None) -> None:
        self.order = order if order is not None else iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.order
