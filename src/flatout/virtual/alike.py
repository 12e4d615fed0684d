"""The GPUs on which a script takes the same path as on the one that it runs on, as far as it has run.

Whatever PyTorch or the script decides by what the GPU is goes through here: the answer is worked out for the others
too, and those that get another one drop out. Nothing is asked in a run for one GPU, which has no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flatout.gpu import GPU

T = TypeVar("T")
Capability = tuple[int, int]


class Alike:
    """The `others` that are left. Empty, and free of cost, unless a run shall stand for more than its own GPU."""

    def __init__(self, others: Iterable[GPU] = ()) -> None:
        self.others = tuple(others)

    def by_capability(self, answer: Callable[[Capability], T], own: T) -> T:
        """`own`, the answer for this run's GPU; `answer` says it for any compute capability, or raises its error."""
        if self.others:
            other = {capability for capability in self.capabilities() if not _same(answer, capability, own)}
            if other:
                self.others = tuple(gpu for gpu in self.others if gpu.compute_capability not in other)
        return own

    def capabilities(self) -> set[Capability]:
        """Those of the others."""
        return {gpu.compute_capability for gpu in self.others}

    def labels(self) -> list[str]:
        """The others' names for people, sorted."""
        return sorted(gpu.label for gpu in self.others)


def _same(answer: Callable[[Capability], T], capability: Capability, own: T) -> bool:
    try:
        return bool(answer(capability) == own)
    except RuntimeError:  # what has no kernel there would stop the script
        return False
