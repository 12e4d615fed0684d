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


def _of(value: Any) -> Hint | None:
    """What is known about an argument: of Booleans, that they are 0 or 1."""
    if not isinstance(value, torch.Tensor):
        return None
    hint: Hint | None = getattr(getattr(value.untyped_storage(), "_flatout", None), "bounds", None)
    if hint is None or (hint.low is None and hint.high is None):
        return Hint(0, 2) if value.dtype is torch.bool else None
    return hint


def converted(source: torch.Tensor, dtype: torch.dtype) -> Hint | None:
    """What is known about a copy of `source` in another dtype. Integer bounds are half-open, those of floats not."""
    hint = _of(source)
    if hint is None or not dtype.is_floating_point or source.is_floating_point():
        return hint
    return Hint(hint.low, None if hint.high is None else hint.high - 1)


def _same(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
    hint = _of(args[0])
    return None if hint is None else (0, converted(args[0], results[0].dtype) or hint)


def _same_and_index(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
    hint = _of(args[0])
    if hint is not None:
        results[0].untyped_storage()._flatout.bounds = hint
    return _index_along(1)(args, results)


def _sum(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
    source = args[0]
    hint = _of(source)
    if hint is None:
        return None
    terms = source.numel() // max(results[0].numel(), 1)
    whole = not source.is_floating_point()
    low = None if hint.low is None else hint.low * terms
    high = None if hint.high is None else (hint.high - 1) * terms + 1 if whole else hint.high * terms
    return 0, Hint(low, high)


def _divided(args: Sequence[Any], results: Sequence[Any]) -> tuple[int, Hint] | None:
    hint, by = _of(args[0]), args[1]
    number = by.item() if isinstance(by, torch.Tensor) and by.device.type == "cpu" and by.dim() == 0 else by
    if hint is None or isinstance(number, torch.Tensor) or not number > 0:
        return None
    top = None if hint.high is None else hint.high - (0 if args[0].is_floating_point() else 1)
    return 0, Hint(None if hint.low is None else hint.low / number, None if top is None else top / number)


RULES: dict[str, HintRule] = {
    "aten::argmax": _index_along(0),
    "aten::argmin": _index_along(0),
    "aten::argsort": _index_along(0),
    "aten::max.dim": _same_and_index,
    "aten::min.dim": _same_and_index,
    "aten::max": _same,
    "aten::min": _same,
    "aten::amax": _same,
    "aten::amin": _same,
    "aten::mean": _same,
    "aten::mean.dim": _same,
    "aten::clone": _same,
    "aten::index.Tensor": _same,
    "aten::index_select": _same,
    "aten::gather": _same,
    "aten::div.Tensor": _divided,
    "aten::cosine_similarity": _always(Hint(-1.0, 1.0)),
    "aten::tanh": _always(Hint(-1.0, 1.0)),
    "aten::linalg_vector_norm": _always(Hint(0.0, None)),
    "aten::std.correction": _always(Hint(0.0, None)),
    "aten::var.correction": _always(Hint(0.0, None)),
    "aten::sort": _index_along(1),
    "aten::sort.stable": lambda args, results: (1, Hint(0, max(args[0].numel(), 1))),
    "aten::topk": _topk,
    "aten::multinomial": _categories,
    "aten::_softmax": _simplex,
    "aten::sigmoid": _always(UNIT),
    "aten::relu": _always(NOT_NEGATIVE),
    "aten::abs": _always(NOT_NEGATIVE),
    "aten::exp": _always(NOT_NEGATIVE),
    "aten::sum": _sum,
    "aten::sum.dim_IntList": _sum,
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
