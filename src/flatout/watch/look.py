"""What is looked for in a few steps only, because looking takes long: reads of values, by line.

On a GPU each of them would make the host wait. Here they are counted, and marked as such.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flatout.launch.places import FLATOUT
from flatout.steps.places import user_place

if TYPE_CHECKING:
    from flatout.recording import Writer

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__")
_FIRST = 10
_STEPS = 3
_LATER = (100, 1_000, 10_000, 100_000)


def is_looked_into(step: int, asked: int | None) -> bool:
    """Whether step number `step` (from 0) is. Of a run of few steps, `asked`, most stay steady."""
    first = _FIRST if asked is None else min(_FIRST, max(4, asked - _STEPS - 2))
    return first <= step < first + _STEPS or step in _LATER


class Look:
    """Replaces the methods of a tensor that read values, until `end`."""

    def __init__(self, writer: Writer, torch: Any, in_loader: Callable[[], bool]) -> None:
        self._writer = writer
        self._in_loader = in_loader
        self._not_the_scripts = (os.path.dirname(torch.__file__) + os.sep, FLATOUT)
        self._tensor = torch.Tensor
        self._inside = False
        self._own = {name: vars(self._tensor)[name] for name in READS if name in vars(self._tensor)}
        for name in READS:
            setattr(self._tensor, name, self._counted(name, getattr(self._tensor, name)))

    def end(self) -> None:
        """Put them back."""
        for name in READS:
            if name in self._own:
                setattr(self._tensor, name, self._own[name])
            else:
                delattr(self._tensor, name)

    def _count(self, reason: str) -> None:
        place = user_place()
        if place is not None and not self._in_loader():
            self._writer.wait(place, reason)

    def _counted(self, name: str, plain: Any) -> Any:
        shown = {"__bool__": "bool()", "__float__": "float()", "__int__": "int()", "__index__": "index"}
        reason = f"would wait on a GPU: {shown.get(name, f'.{name}()')}"

        # PyTorch's own reads are of counters and seeds, which stay on the host.
        def read(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
            if self._inside:  # printing a tensor reads it many times
                return plain(tensor, *arguments, **keywords)
            self._inside = True
            try:
                if not sys._getframe(1).f_code.co_filename.startswith(self._not_the_scripts):
                    self._count(reason)
                return plain(tensor, *arguments, **keywords)
            finally:
                self._inside = False

        return read
