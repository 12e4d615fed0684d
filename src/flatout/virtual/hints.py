"""What is known *about* values that are not known: ranges of indices, probabilities, what a comparison likely says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch


@dataclass(frozen=True)
class Hint:
    """`low` and `high` bound the values (half-open for integers); `simplex_dim`: they sum to 1 along it.

    `likely` is what a condition is taken to be.
    """

    low: float | None = None
    high: float | None = None
    simplex_dim: int | None = None
    likely: bool = False


HintRule: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], "tuple[int, Hint] | None"]
"""(arguments, results) -> (which result, what is known about it)."""

LIKELY = Hint(likely=True)
UNIT = Hint(0.0, 1.0)
NOT_NEGATIVE = Hint(0.0, None)


def _index_along(result: int) -> HintRule:
    def rule(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
        source = args[0]
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) and not isinstance(args[1], bool) else None
        size = source.numel() if dim is None or source.dim() == 0 else source.shape[dim]
        return result, Hint(0, max(size, 1))

    return rule


def _topk(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint]:
    source = args[0]
    dim = args[2] if len(args) > 2 else -1
    return 1, Hint(0, max(source.shape[dim] if source.dim() else 1, 1))


def _always(hint: Hint) -> HintRule:
    return lambda args, results: (0, hint)


def _simplex(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint]:
    return 0, Hint(0.0, 1.0, simplex_dim=args[1])


def _count(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
    source = args[0]
    if source.dtype is not torch.bool:
        return None
    return 0, Hint(0, source.numel() // max(results[0].numel(), 1) + 1)


def _categories(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint]:
    return 0, Hint(0, max(args[0].shape[-1], 1))


TOLERANCE = 1e-4
"""A number up to this size that is compared with counts as a tolerance: invented values are of ordinary size, above."""


def _against(greater: bool) -> HintRule:
    """Comparing with a number: a value computed in training is below a limit, and not yet within a tolerance."""

    def rule(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint]:
        limit = args[1]
        tolerance = args[0].is_floating_point() and isinstance(limit, (int, float)) and 0 < abs(limit) <= TOLERANCE
        if tolerance and limit < 0:  # whether a slope is still downhill: ``gtd > -1e-9``
            return 0, Hint(likely=not greater)
        return 0, Hint(likely=greater if tolerance else not greater)

    return rule


RULES: dict[str, HintRule] = {
    "aten::argmax": _index_along(0),
    "aten::argmin": _index_along(0),
    "aten::argsort": _index_along(0),
    "aten::max.dim": _index_along(1),
    "aten::min.dim": _index_along(1),
    "aten::sort": _index_along(1),
    "aten::sort.stable": lambda args, results: (1, Hint(0, max(args[0].numel(), 1))),
    "aten::topk": _topk,
    "aten::multinomial": _categories,
    "aten::_softmax": _simplex,
    "aten::sigmoid": _always(UNIT),
    "aten::relu": _always(NOT_NEGATIVE),
    "aten::abs": _always(NOT_NEGATIVE),
    "aten::exp": _always(NOT_NEGATIVE),
    "aten::sum": _count,
    "aten::sum.dim_IntList": _count,
    "aten::lt.Tensor": _always(LIKELY),
    "aten::lt.Scalar": _against(greater=False),
    "aten::gt.Scalar": _against(greater=True),
    "aten::ge.Scalar": _against(greater=True),
    "aten::le.Tensor": _always(LIKELY),
    "aten::le.Scalar": _against(greater=False),
    "aten::all": _always(LIKELY),
    "aten::all.dim": _always(LIKELY),
}

_INFINITE = (float("inf"), float("-inf"))


def certain(name: str, args: Sequence[Any]) -> bool | None:
    """What a comparison surely says of invented floats, which are finite; None where it could be either."""
    if name in ("aten::ne.Scalar", "aten::eq.Scalar") and isinstance(args[1], float) and args[1] in _INFINITE:
        return name == "aten::ne.Scalar"
    if name in ("aten::eq.Tensor", "aten::ne.Tensor") and args[0] is args[1]:
        return name == "aten::eq.Tensor"
    if name in ("aten::isnan", "aten::isinf", "aten::isposinf", "aten::isneginf"):
        return False
    return None
