"""Tapes of the virtual GPU, kept in files: what a script asked the GPU for in one step.

Each run is a fork of one process that has imported what scripts need. What is kept lies below `KEPT`/tapes, one file a
run; a run that is there already is not made again. A step is what lies between two calls of ``torch.cuda.synchronize``;
what comes before the first one is the setting up.
"""

from __future__ import annotations

import gzip
import hashlib
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from dry import KEPT, ROOT, SCRIPTS
from forked import Run, keep_each

sys.path.insert(0, str(ROOT / "src"))
from flatout.recording.tape import Inside, Launch, Tape

FOLDER = KEPT / "tapes"
UNLIMITED_BYTES = 1 << 50


def path_of(script: str, arguments: Sequence[str]) -> Path:
    """Where the tape of that run is kept."""
    digest = hashlib.sha256(" ".join([script, *arguments]).encode()).hexdigest()[:16]
    return FOLDER / f"{digest}.json.gz"


def load(script: str, arguments: Sequence[str]) -> Tape | None:
    """What was kept of that run, None where it was not made or failed."""
    path = path_of(script, arguments)
    content = gzip.decompress(path.read_bytes()) if path.exists() and path.stat().st_size else b""
    return msgspec.json.decode(content, type=Tape) if content else None


def record(script: str, arguments: Sequence[str]) -> Tape:
    """Run the script on the virtual GPU in this process. The tape holds its last step."""
    from flatout.gpu import find
    from flatout.virtual.boot import boot
    from flatout.virtual.clock import Clock

    machine = boot(find("rtx 3090"), usable_bytes=UNLIMITED_BYTES)
    machine.clock = clock = Clock(machine)
    plain = machine.wait

    def wait(reason: str, **facts: bool) -> None:
        plain(reason, **facts)
        if reason != "synchronize":
            return
        if machine.phase == "setup":
            machine.phase = "forward"
        machine.step += 1
        clock.step_completed()

    machine.wait = wait  # type: ignore[method-assign]
    sys.argv = [script, *arguments]
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    tape = clock.tape()
    assert tape is not None, "the script never synchronized"
    starts = [at for at, event in enumerate(tape.events) if type(event).__name__ == "Wait"]
    return msgspec.structs.replace(tape, events=tape.events[starts[-2] + 1 :], steps=1)


def collect(jobs: Sequence[Run]) -> None:
    """Make the runs that are not there yet."""
    keep_each(jobs, path_of, record)


def eager(tape: Tape) -> Tape:
    """The same steps if nothing had been compiled."""
    events = tuple(
        Launch(event.operation, event.stream) if isinstance(event, Inside) else event for event in tape.events
    )
    return msgspec.structs.replace(tape, events=events)
