"""Room for deep syntax trees where Python itself does not watch its stack.

Before 3.11, `ast.parse` goes as deep as the source does, in C and without a limit: at some 200,000 terms in one sum the
8 MiB of a usual stack are used up, and the process dies. From 3.11 on it raises RecursionError long before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

STACK_BYTES = 512 * 1024 * 1024  # of addresses; memory is taken only as far as it is used
DEEP_FROM_BYTES = 100_000  # a source of this size nests no deeper than a usual stack bears, at two bytes a level

F = TypeVar("F", bound=Callable[..., Any])


def roomy(function: F) -> F:
    """`function(job, data, ...)`, run on a larger stack where `data` might need it."""
    if sys.version_info >= (3, 11):
        return function

    @wraps(function)
    def run(job: Any, data: bytes, *rest: Any, **more: Any) -> Any:
        if len(data) < DEEP_FROM_BYTES or threading.current_thread().name == __name__:
            return function(job, data, *rest, **more)
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.extend((function(job, data, *rest, **more), None))
            except BaseException as error:
                outcome.extend((None, error))

        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=work, name=__name__)
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    return run  # type: ignore[return-value]
