"""Which rules are asked: layers of selectors, the later over the earlier, the more specific over the less.

    select_rules([Layer(select=("FO1",)), Layer(ignore=("FO101",))]) -> frozenset of codes

As with ruff, a layer that has `select` starts from nothing; in a layer the longer selector wins, and `ignore` where
both are as long. Without any `select`, the rules that are on by default are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flatout.check.registry import all_rules, matching
from flatout.errors import UsageError


class Layer(NamedTuple):
    """What one source of settings says: a configuration file, or the command line."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    source: str = "the command line"  # for messages


def select_rules(layers: Iterable[Layer]) -> frozenset[str]:
    """The codes of the rules to ask. Raises UsageError for a selector that stands for no rule."""
    chosen = frozenset(rule.code for rule in all_rules() if rule.default)
    for layer in layers:
        wanted = _ranked((*(layer.select or ()), *layer.extend_select), layer.source)
        unwanted = _ranked(layer.ignore, layer.source)
        kept = frozenset() if layer.select is not None else chosen
        on = {code for code, rank in wanted.items() if rank > unwanted.get(code, -1)}
        off = {code for code in unwanted if code not in on}
        chosen = (kept | on) - off
    return chosen


def codes_of(selectors: Iterable[str], source: str) -> frozenset[str]:
    """All codes that `selectors` stand for. Raises UsageError for one that stands for none."""
    return frozenset(_ranked(selectors, source))


def _ranked(selectors: Iterable[str], source: str) -> dict[str, int]:
    """For each code how specific the most specific selector for it is."""
    ranks: dict[str, int] = {}
    for selector in selectors:
        codes = matching(selector)
        if not codes:
            raise UsageError(
                f"{source}: {selector!r} is no rule; give a code (FO101), its start (FO1), a rule's name or ALL "
                "(flatout rule --all lists them)"
            )
        upper = selector.strip().upper()
        rank = 0 if upper == "ALL" else len(upper) if upper.startswith("FO") else 99
        for code in codes:
            ranks[code] = max(rank, ranks.get(code, -1))
    return ranks
