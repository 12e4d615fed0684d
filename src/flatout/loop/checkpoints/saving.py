"""When a save is made, and where a resumed training goes on."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatout.errors import CheckpointError, FlatoutError, UsageError
from flatout.loop.checkpoints import checkpoint
from flatout.loop.checkpoints.plain import plain
from flatout.loop.checkpoints.state import FIELDS, State


@dataclass(frozen=True)
class Request:
    """A save that was asked for: the arguments of `Loop.save`."""

    folder: Path
    keep: int | None
    wait: bool
    extra: dict[str, Any]


class Saver:
    """Makes the saves asked for when they are exact: between windows, and at the end of a batch's body."""

    def __init__(self, state: State, say: Callable[[str], None]) -> None:
        self._state = state
        self._say = say
        self._waiting: dict[Path, Request] = {}
        self._writer = Writer()
        self._go_on: Callable[[], None] | None = None
        self._resumed_in_epoch = False
        self._begun: int | None = None  # the newest epoch whose body was begun
        self._in_epochs = False
        self._loops = 0  # over batches, so far in this epoch's body

    def ask(self, folder: Path, keep: int | None, wait: bool, extra: dict[str, Any]) -> None:
        """Save now, or as soon as that is exact."""
        if not self._state.stepper.models and not self._state.stepper.optimizers:
            raise UsageError(
                "loop.save(folder): nothing is prepared; call loop.prepare(model, optimizer, loader) first"
            )
        if keep is not None and (not isinstance(keep, int) or keep < 1):
            raise UsageError(f"loop.save(folder, keep={keep!r}): at least one version is kept; None keeps all")
        inside = self._state.cursor.batch is not None
        if inside and self._loops > 1 and not self._in_epochs:
            raise UsageError(
                "loop.save(folder): in the second loop over batches and outside `for epoch in loop.epochs(n):`, so a "
                "resume could not tell where to go on; loop over loop.epochs"
            )
        folder = folder.absolute()  # the save may be made when the script has gone to another folder
        given = {name: plain(value, name, copy=True) for name, value in extra.items()}
        self._waiting[folder] = Request(folder, keep, wait, given)
        if not inside:
            self._make_all(in_epoch=False)

    def at_next(self) -> None:
        """A loop over a prepared loader asks for its next batch, or finds that there is none."""
        cursor = self._state.cursor
        if not cursor.outermost or cursor.evaluating:
            return
        self._loops += cursor.first
        if self._go_on is not None:
            self._go_on_now()
        if self._waiting and self._loops == 1:  # the body that a resume starts again has this loop first
            self._make_all(in_epoch=True)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Around an epoch's body."""
        self._loops, self._in_epochs, self._begun = 0, True, self._state.cursor.epoch
        self._state.trained = False
        if not self._resumed_in_epoch:
            self._go_on_now()
        try:
            yield
        except GeneratorExit:
            for folder in self._waiting:
                self._say(
                    f"loop.save({str(folder)!r}) was not done: the loop was left before the body that it was asked for "
                    "in had ended; call it once more after the loop"
                )
            self._waiting.clear()
            raise
        finally:
            self._in_epochs = False
        self._make_all(in_epoch=False)

    def _make_all(self, *, in_epoch: bool) -> None:
        """Make the saves that wait, if no window is open."""
        if self._waiting and self._state.stepper.between_windows:
            self._make_now(in_epoch)

    def _make_now(self, in_epoch: bool) -> None:
        if self._go_on is not None:  # nothing has been trained since a resume
            self._go_on()
            in_epoch = self._resumed_in_epoch
        waiting, self._waiting = list(self._waiting.values()), {}
        for request in waiting:
            self._make(request, in_epoch)

    def _make(self, request: Request, in_epoch: bool) -> None:
        ranks, cursor, fault = self._state.ranks, self._state.cursor, self._writer.finish()
        through = not in_epoch and self._begun == cursor.epoch and self._state.trained
        epoch = cursor.epoch + through
        content: dict[str, Any] = {}
        try:
            content = self._state.collect(request.extra, epoch=epoch, in_epoch=in_epoch, copy=not request.wait)
        except FlatoutError as error:
            fault = fault or error
        if ranks.is_first and fault is None:
            run = self._writer.run if request.wait else self._writer.start
            run(lambda: checkpoint.write(request.folder, content, keep=request.keep))
            fault = self._writer.finish() if request.wait else None
        fault = ranks.broadcast(fault)
        if fault is not None:
            raise fault

    def end_epochs(self) -> None:
        """All epochs are through."""
        self._go_on_now()
        if self._waiting:
            self._say(
                "loop.save(...): the last window was still open when the epochs ended; what it held is in no step"
            )
            self._make_now(in_epoch=False)
        self.finish()

    def finish(self) -> None:
        """Wait for what is being written; its error is raised here, on every rank."""
        fault = self._state.ranks.broadcast(self._writer.finish())
        if fault is not None:
            raise fault

    # --- resuming ---------------------------------------------------------------------------------------------------

    def resume(self, place: Path) -> bool:
        """See `Loop.resume`."""
        state, ranks = self._state, self._state.ranks
        call = f"loop.resume({str(place)!r})"
        if not state.stepper.models and not state.stepper.optimizers:
            raise UsageError(f"{call}: nothing is prepared; call loop.prepare(model, optimizer, loader) first")
        if self._in_epochs or state.cursor.batch is not None or not state.stepper.between_windows:
            raise UsageError(f"{call}: in the middle of training; resume before `for epoch in loop.epochs(n):`")
        self._begun = None
        self.finish()
        path = ranks.broadcast(_newest(place) if ranks.is_first else None)
        if isinstance(path, FlatoutError):
            raise path
        if path is None:
            return False
        fault, content = None, {}
        try:
            content = checkpoint.read(path)
            if missing := sorted(FIELDS - set(content)):
                raise CheckpointError(f"{path}: lacks {missing[0]}, so loop.save did not write it; give another file")
            if faults := state.faults(content):
                raise CheckpointError(
                    f"{call}: {path.name} is not of this training: {'; '.join(faults)}. Make everything as it was when "
                    "it was saved; parts of it can be had by torch.load(file, weights_only=True)"
                )
        except CheckpointError as error:
            fault = error
        fault = next((one for one in ranks.gather(fault) if one is not None), None)
        if fault is not None:
            raise fault
        self._go_on, self._resumed_in_epoch = state.restore(content), content["in_epoch"]
        place_words = (
            f"in the middle of epoch {content['epoch']}" if content["in_epoch"] else f"at epoch {content['epoch']}"
        )
        self._say(f"resumed from {path}, {place_words}, after {content['steps']} optimizer steps")
        return True

    def _go_on_now(self) -> None:
        """Training goes on now: what the user's code has drawn and read since `resume` is undone, once."""
        if self._go_on is not None:
            self._go_on()
            self._go_on = None


def _newest(place: Path) -> Path | CheckpointError | None:
    if place.is_file():
        return place
    if place.suffix == ".pt":
        return CheckpointError(f"loop.resume({str(place)!r}): there is no such file; give a folder to start anew in it")
    try:
        found = checkpoint.versions(place)
    except CheckpointError as error:
        return error
    return found[-1] if found else None


class Writer:
    """Runs jobs, in a thread of its own on request, and keeps the last one's error until it is asked for."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._fault: FlatoutError | None = None

    def start(self, job: Callable[[], object]) -> None:
        """Run a job in the background; none is running."""
        assert self._thread is None
        self._thread = threading.Thread(target=self.run, args=(job,), name="flatout checkpoint")
        self._thread.start()
        atexit.register(self._report)

    def run(self, job: Callable[[], object]) -> None:
        """Run a job here and now."""
        try:
            job()
        except FlatoutError as error:
            self._fault = error
        except Exception as error:  # nothing that happens to a save may go unheard
            self._fault = CheckpointError(f"loop.save(...): {type(error).__name__}: {error}")

    def finish(self) -> FlatoutError | None:
        """Wait for the job. Its error, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            atexit.unregister(self._report)
        fault, self._fault = self._fault, None
        return fault

    def _report(self) -> None:
        """The process ends: the thread has ended before, its error has had no call to be raised at."""
        fault = self.finish()
        if fault is not None:
            print(f"flatout: {fault}", file=sys.stderr)
