"""The operations of one step of a script, as the virtual GPU sees them, kept in files.

    python benchmarks/accuracy/operations.py timm [--timm-folder DIR] [--count N]     training steps of timm's models
    python benchmarks/accuracy/operations.py language                                 the models of NeuSight's table

Each run is a fork of one process that has imported what scripts need. What is kept lies below `KEPT`/operations, one
file a run; a run that is there already is not made again (delete the folder to make all again). A step is what lies
between two calls of ``torch.cuda.synchronize``; the last one is kept.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import os
import runpy
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from dry import KEPT, ROOT, SCRIPTS
from forked import Run, keep_each

sys.path.insert(0, str(ROOT / "src"))
from flatout.costs import Operation

FOLDER = KEPT / "operations"
UNLIMITED_BYTES = 1 << 50
FRESH = (11, 40)
"""Seed and number of models of a draw that no constant and no formula was ever chosen by: it is scored as it is."""


class Step(msgspec.Struct):
    """One step: its distinct operations, and which of them ran, in order, each as an index."""

    operations: list[Operation]
    order: list[int]

    def counts(self) -> list[tuple[Operation, int]]:
        """Each distinct operation, and how often it ran."""
        times = [0] * len(self.operations)
        for index in self.order:
            times[index] += 1
        return list(zip(self.operations, times))


def path_of(script: str, arguments: Sequence[str]) -> Path:
    """Where the operations of that run are kept."""
    name = " ".join([script, *arguments])
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return FOLDER / f"{digest}.json.gz"


def load(script: str, arguments: Sequence[str]) -> Step | None:
    """What was kept of that run, None where it was not made or failed."""
    path = path_of(script, arguments)
    if not path.exists():
        return None
    content = gzip.decompress(path.read_bytes())
    return msgspec.json.decode(content, type=Step) if content else None


def record(script: str, arguments: Sequence[str]) -> Step:
    """Run the script on the virtual GPU in this process, and tell of its last step."""
    from flatout.gpu import find
    from flatout.virtual import observing
    from flatout.virtual.boot import boot

    machine = boot(find("rtx 3090"), usable_bytes=UNLIMITED_BYTES)
    seen: list[Operation] = []
    last: list[Operation] = []
    observing.listen(lambda op, args, kwargs, result, began: seen.append(observing.describe(op, args, kwargs, result)))

    def wait(reason: str, **facts: bool) -> None:
        nonlocal last
        if reason == "synchronize":
            last = list(seen)
            seen.clear()

    machine.wait = wait  # type: ignore[method-assign]
    sys.argv = [script, *arguments]
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    observing.listen(None)
    numbers: dict[int, int] = {}
    operations: list[Operation] = []
    order = []
    for operation in last:
        number = numbers.setdefault(id(operation), len(operations))
        if number == len(operations):
            operations.append(operation)
        order.append(number)
    return Step(operations, order)


def collect(jobs: Sequence[Run]) -> None:
    """Make the runs that are not there yet."""
    keep_each(jobs, path_of, record)


def timm_jobs(count: int) -> list[tuple[str, list[str]]]:
    """The rows of all draws of timm's training table (see `timm_brackets`), at the batch that was measured."""
    import timm_brackets

    drawn = timm_brackets.draws(timm_brackets.read(), (*timm_brackets.DRAWS, FRESH))
    rows = [row for of_seed in drawn.values() for row in of_seed][:count]
    return [("timm_step.py", timm_arguments(row)) for row in rows]


def timm_arguments(row: Any) -> list[str]:
    """The command line of two steps of that row."""
    return [*row.arguments(row.batch), "--steps", "2"]


def language_jobs() -> list[tuple[str, list[str]]]:
    """The rows of NeuSight's table on one GPU, without fusion."""
    import neusight

    return [("language_step.py", row.arguments()) for row in neusight.unique(neusight.end_to_end())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=("timm", "language"))
    parser.add_argument("--timm-folder", type=Path, help="where timm 0.6.7 is")
    parser.add_argument("--count", type=int, default=270, help="how many of timm's rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    environment: dict[str, Any] = {}
    if options.set == "timm":
        import timm_brackets

        environment = timm_brackets.ENVIRONMENT
        if options.timm_folder is not None:
            sys.path.insert(0, str(options.timm_folder))
    os.environ.update(environment)
    for module in ("torch", "timm" if options.set == "timm" else "transformers"):
        importlib.import_module(module)
    collect(timm_jobs(options.count) if options.set == "timm" else language_jobs())


if __name__ == "__main__":
    main()
