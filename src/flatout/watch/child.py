"""The child's side of a watched run. `install` is called in the script's process before its first line.

Nothing is loaded that the script would not load: the hooks are put in when it has imported torch.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from flatout.launch.ending import ending_of
from flatout.recording import Writer
from flatout.recording.schema import Run
from flatout.steps.imports import watch_imports, when_imported
from flatout.steps.leaves import Leaves
from flatout.watch.collecting import Collections
from flatout.watch.counting import Counting, is_counted
from flatout.watch.graphs import Graphs
from flatout.watch.look import Look, is_looked_into
from flatout.watch.notes import Notes
from flatout.watch.recorder import Recorder
from flatout.watch.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from flatout.steps.counting import StepCounter


class Options(msgspec.Struct, frozen=True):
    """What the parent asks for. `steps` and `seconds`: after how much the script is stopped; None for never."""

    recording: str
    script: str = ""
    arguments: tuple[str, ...] = ()
    steps: int | None = None
    seconds: float | None = None
    launched_as: str = "script"


class WatchHook:
    """Everything that is installed in the script's process, and its end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._began = time.monotonic()
        self._torch: Any = None
        self._undo: list[Callable[[], None]] = []
        self._look: Look | None = None
        self._closed = False
        self._steps: Any = None
        self._leaves = Leaves()
        self._plain_exit = os._exit
        os._exit = self._leave
        run = Run("watch", options.script, options.arguments, "", time.time())
        self._writer = Writer(options.recording, run)
        self._writer.doing("before the first step")
        self._writer.fact("cores", _cores())
        self._recorder = Recorder(self._writer, self._step_completed)
        self._collections = Collections()
        self._undo += [self._collections.remove, watch_imports()]
        when_imported("torch", self._torch_is_there)
        self._writer.flush()  # what a script that dies at once was doing
        self._samples = Samples(self._writer, self._write_facts)
        self._notes = Notes()
        self._graphs = Graphs(self._recorder, self._notes)
        self._counting = Counting(self._samples.process)
        self._counted = False

    def finished(self, error: BaseException | None) -> None:
        """The script ended: by itself (None), stopped by us, or with an exception."""
        if self._closed:
            return
        self._closed = True
        if self._steps is not None and error is None:
            self._note_last_update(self._steps.counter)
        self._recorder.close()
        self._samples.stop()
        self._end_look()
        for undo in reversed(self._undo):
            undo()
        self._write_facts()
        self._write_observations(ended_well=error is None or type(error).__name__ == "StopRun")
        self._writer.close(ending_of(error))

    def _write_observations(self, *, ended_well: bool) -> None:
        if self._torch is None or not self._recorder.steps:
            return
        self._counting.note(self._notes, self._recorder.steps)
        if ended_well:
            from flatout.watch.trying import try_optimizers

            try_optimizers(self._recorder, self._notes)
        self._writer.observations(self._notes.observations(self._recorder.steps))

    def forked(self) -> None:
        """In a forked child of the script: nothing more is recorded here."""
        self._closed = True
        self._recorder.close()

    def _note_last_update(self, counter: StepCounter) -> None:
        """A last update by hand is followed by no backward pass that would tell of it."""
        if not counter.has_optimizers and self._leaves.changed(()):
            counter.parameter_updated()
        if counter.program_ends():
            self._recorder.step_completed(counter.completed)

    def _leave(self, status: int) -> NoReturn:
        """In place of `os._exit`, which runs no exit handler: what was noted is written first."""
        if not self._closed:
            with contextlib.suppress(Exception):  # the script wants to be gone
                self._write_facts()
                self._writer.flush()
        self._plain_exit(status)

    def _torch_is_there(self, torch: Any) -> None:
        from flatout.steps import watch_steps
        from flatout.watch import hooks, loaders

        self._torch = torch
        self._writer.fact("torch_version", str(torch.__version__))
        self._writer.fact("threads", torch.get_num_threads())
        self._steps = watch_steps(self._recorder, self._leaves.changed)
        self._undo += [self._steps.remove, hooks.follow(self._recorder, torch, self._graphs)]
        when_imported(
            "torch.utils.data.dataloader",
            lambda module: self._undo.append(loaders.follow(self._recorder, module)),
        )

    def _step_completed(self, steps: int) -> None:
        """`steps` are done. What is done here is part of the step that begins."""
        if self._options.steps is not None and steps >= self._options.steps:
            self._stop(f"{steps} steps done")
        if self._options.seconds is not None and time.monotonic() - self._began >= self._options.seconds:
            self._stop(f"{self._options.seconds:g} s are over")
        if is_looked_into(steps, self._options.steps):
            if self._look is None:
                self._look = Look(self._writer, self._torch, self._recorder.in_loader)
                self._writer.fact("anomaly_mode", bool(self._torch.is_anomaly_enabled()))
            self._recorder.kind_of_next = "looked_into"
        elif self._look is not None or self._counted:
            self._end_look()
            self._recorder.kind_of_next = "steady"
        self._graphs.step_completed()
        self._counted = is_counted(steps)
        if self._counted:
            self._counting.count(steps)
            self._recorder.kind_of_next = "looked_into"

    def _stop(self, reason: str) -> None:
        from flatout.launch import stop_run

        self._end_look()
        stop_run(reason)

    def _end_look(self) -> None:
        if self._look is not None:
            self._look.end()
            self._look = None

    def _write_facts(self) -> None:
        self._recorder.write_facts()
        self._writer.fact("garbage_collection", self._collections.facts())


def install(raw: dict[str, Any]) -> WatchHook | None:
    """Watch this process. `raw` is `Options` as JSON. In a fresh worker of the script nothing is recorded."""
    options = msgspec.convert({name: raw[name] for name in raw if name in Options.__struct_fields__}, Options)
    return WatchHook(options) if options.launched_as == "script" else None


def _cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
