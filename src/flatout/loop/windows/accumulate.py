"""The arithmetic of an accumulation window. No torch: it holds for floats, fractions and tensors alike.

One optimizer step is to follow the gradient of the mean loss over *everything* that the window holds on all ranks:

    gradient = sum(weight_i * gradient_i) / sum(weight_i)

where micro-batch i brings the gradient of its own mean loss over `weight_i` samples (or tokens). Dividing by the
number of micro-batches is the same only while all weights are equal and the window is full; a short last window, a
short last batch or texts of different length make it wrong.

The total is often known before the window starts (the loader's plan). Where it is not, an expected total takes its
place and the gradients are corrected once at the window's end; if the expectation was right nothing is left to do.
Where nothing weighs anything (texts without a token that counts) the gradients are zero, and no zero divides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Number = Any  # int, float, Fraction, or a tensor of one element: what can be added, multiplied and divided
"""A weight, a scale or a correction."""


def _alone(value: Number) -> Number:
    return value


class Window:
    """One optimizer step's worth of micro-batches.

    `length`: the micro-batches that it is to hold. `planned`: their total weight over all ranks, None where it is not
    known. `sum_over_ranks` adds a number up over all ranks; it is asked only where the total is not planned, and by all
    ranks alike.
    """

    def __init__(
        self,
        length: int,
        *,
        planned: Number | None = None,
        ranks: int = 1,
        sum_over_ranks: Callable[[Number], Number] = _alone,
    ) -> None:
        self.length = length
        self.count = 0
        self._planned = planned
        self._ranks = ranks
        self._sum_over_ranks = sum_over_ranks
        self._weight: Number = 0
        self._expected: Number | None = None
        self._on_plan = True

    def scale(self, weight: Number, *, planned: bool = True, summed: bool = False, alike: bool = True) -> Number:
        """Take in a micro-batch of this weight; what its mean loss is to be multiplied by before the backward pass.

        `planned` is False for a weight that the loader could not know, such as a number of tokens. `summed`: the loss
        is the sum over what the weight counts, and not its mean. `alike`: the window's others are expected to weigh
        the same; where not, a power of two takes the total's place. Ranks average their gradients, hence `ranks`.
        """
        if self._expected is None:
            if planned and self._planned is not None:
                self._expected = self._planned
            else:
                self._on_plan = False
                guess = (weight if self._ranks == 1 else self._sum_over_ranks(weight)) * self.length
                self._expected = divisor(guess) if alike or self.length == 1 else power_of_two(guess)
        self._on_plan = self._on_plan and planned
        self.count += 1
        self._weight = self._weight + weight
        return (1 if summed else weight) * self._ranks / self._expected

    def correction(self) -> Number | None:
        """What the gradients have to be divided by at the window's end. None when they are right as they are."""
        if self._expected is None or self.count == self.length == 1 or (self._on_plan and self.count == self.length):
            return None
        correction = divisor(self._sum_over_ranks(self._weight)) / self._expected
        known = not hasattr(correction, "device")
        return None if known and correction == 1 else correction


def divisor(total: Number) -> Number:
    """`total`, or 1 for 0. Without a branch: a tensor is not read."""
    return total + (total == 0)


def power_of_two(value: Number) -> Number:
    """A power of two near `value`: to multiply and divide by it costs no digit.

    So a window whose total is known only at its end comes out as the sum of all losses, divided once, bit for bit.
    """
    if hasattr(value, "frexp"):  # a tensor: not read, the host need not wait
        _, exponent = (value * 1.0).frexp()
        return (value * 0 + 1.0).ldexp(exponent)
    _, exponent = math.frexp(value)
    return 2**exponent if exponent >= 0 else 0.5**-exponent


def window_length(accumulate: int, batch: int, batches: int | None, *, carry: bool = False) -> int:
    """The micro-batches of a window that starts with batch number `batch` of an epoch of `batches` (None: not known).

    A window ends with the epoch, unless it may `carry` on into the next.
    """
    if batches is None or carry:
        return accumulate
    return max(1, min(accumulate, batches - batch))
