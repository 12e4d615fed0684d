"""When a training step is complete, for any number of optimizers or none."""

from __future__ import annotations

PATIENCE = 8
"""A step counts as complete without an optimizer that was made but has not moved for this many steps of another."""

BACKWARDS_WITHOUT_STEP = 20
"""With no optimizer and no visible update, this many backward passes count as one step."""


class StepCounter:
    """Counts training steps.

    One step is complete when every optimizer of the program has stepped once more: a GAN's two optimizers make one step
    together, whichever comes last. An optimizer that never moves (made for later, or never used) is not waited for
    longer than `PATIENCE` steps of the others. A program without an optimizer object has made a step when, after a
    backward pass, it changed a parameter in place and starts the next backward pass.
    """

    def __init__(self) -> None:
        self.completed = 0
        self._steps: dict[int, int] = {}
        self._updated = False
        self._backwards = 0

    @property
    def has_optimizers(self) -> bool:
        """Whether there is any optimizer."""
        return bool(self._steps)

    def optimizer_made(self, key: int) -> None:
        """An optimizer exists from now on."""
        self._steps.setdefault(key, 0)

    def optimizer_gone(self, key: int) -> None:
        """The optimizer will not step any more."""
        self._steps.pop(key, None)

    def optimizer_stepped(self, key: int) -> bool:
        """An optimizer finished ``step()``. Returns whether a training step is complete with it."""
        self._steps[key] = self._steps.get(key, 0) + 1
        counts = self._steps.values()
        complete = max(min(counts), max(counts) // PATIENCE)
        return self._complete(complete)

    def parameter_updated(self) -> None:
        """A parameter was changed in place outside any optimizer (before any backward pass that is only loading)."""
        self._updated = self._updated or self._backwards > 0

    def backward_begins(self) -> bool:
        """A backward pass begins. Returns whether a training step without an optimizer is complete."""
        if any(self._steps.values()):
            return False
        self._backwards += 1
        if self._updated and not self._steps:
            self._updated = False
            self._backwards = 1
            return self._complete(self.completed + 1)
        if self._backwards > BACKWARDS_WITHOUT_STEP:
            self._backwards = 0
            return self._complete(self.completed + 1)
        return False

    def program_ends(self) -> bool:
        """The program ends. Returns whether its last update by hand completed a training step."""
        return self._updated and not self._steps and self._complete(self.completed + 1)

    def _complete(self, count: int) -> bool:
        grown = count > self.completed
        self.completed = max(self.completed, count)
        return grown
