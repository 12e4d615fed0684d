"""Follows the DataLoaders of a dry run: what their batches take the host (see `flatout.steps.batches`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatout.recording.tape import Loader
from flatout.steps.batches import Notebook, Stopwatch, WorkerLoop, follow_workers, samples_in
from flatout.steps.imports import when_imported
from flatout.steps.places import user_place
from flatout.virtual import machine as machines

if TYPE_CHECKING:
    from flatout.virtual.face.patches import Patches


def install(patches: Patches) -> None:
    """Follow every DataLoader of this process, and its workers."""
    when_imported("torch.utils.data.dataloader", lambda module: _follow(patches, module))


def _follow(patches: Patches, dataloader: Any) -> None:
    base: Any = dataloader._BaseDataLoaderIter
    worker = dataloader._utils.worker
    plain_init, plain_next = base.__init__, base.__next__
    patches.on_undo(follow_workers(worker))

    def __init__(self: Any, loader: Any) -> None:
        plain_init(self, loader)
        self._flatout_key = (id(loader.dataset), loader.num_workers, loader.batch_size)
        self._flatout_notebook = None
        if loader.num_workers:
            # The rest of the constructor starts the workers with this loop.
            self._flatout_notebook = Notebook(loader.num_workers)
            worker._worker_loop = WorkerLoop(self._flatout_notebook)

    def __next__(self: Any) -> Any:
        machine = machines.installed()
        clock = None if machine is None else machine.clock
        if clock is None:
            return plain_next(self)
        place = user_place()
        clock.pause(place)
        try:
            with Stopwatch() as watch:
                batch = plain_next(self)
        finally:
            clock.skip()
        workers, notebook = self._num_workers, self._flatout_notebook
        seconds = watch.seconds if notebook is None else notebook.batch_seconds()
        loader = Loader(
            batch_seconds=watch.seconds * workers if seconds is None else seconds,
            workers=workers,
            prefetch_factor=getattr(self, "_prefetch_factor", None) or 2,
            samples=samples_in(batch),
            pinned=self._pin_memory,
        )
        clock.fetched(self._flatout_key, loader, place)
        return batch

    patches.set(base, "__init__", __init__)
    patches.set(base, "__next__", __next__)
