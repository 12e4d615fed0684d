"""Runs of scripts, each in a fork of one process that has imported what they need, and what came of them in files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

Run: TypeAlias = tuple[str, list[str]]
"""A script and its arguments."""

LIMIT_SECONDS = 900


def keep_each(
    jobs: Sequence[Run], path_of: Callable[[str, list[str]], Path], record: Callable[[str, list[str]], Any]
) -> None:
    """Keep what `record` makes of each job at its path, as packed JSON; an empty file where it failed.

    A job whose file is there already is not made again.
    """
    for script, arguments in jobs:
        path = path_of(script, arguments)
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT_SECONDS)
            os.dup2(2, 1)
            try:
                path.write_bytes(gzip.compress(msgspec.json.encode(record(script, arguments)), 5))
            except BaseException:
                path.write_bytes(b"")
                traceback.print_exc()
            os._exit(0)
        os.waitpid(child, 0)
        good = path.exists() and path.stat().st_size > 0
        print(json.dumps([" ".join(arguments), good, round(time.perf_counter() - started, 1)]), flush=True)
