"""Whether a program that has no optimizer changed its parameters since the last backward pass."""

from __future__ import annotations

from typing import Any

_MOST_LEAVES = 3
_MOST_NODES = 5_000
_LARGEST = 4096  # numbers; of larger parameters only so many are looked at


class Leaves:
    """Looks at a few small parameters at the beginning of each backward pass. Not on a GPU, where it would wait."""

    def __init__(self) -> None:
        self._leaves: list[Any] = []
        self._seen: list[tuple[float, ...]] = []

    def changed(self, roots: Any) -> bool:
        """Whether any of them has changed since the last call. `roots`: the tensors that backward starts from."""
        if not self._leaves:
            self._leaves = _smallest(roots)
        seen = [tuple(leaf.detach().flatten()[:_LARGEST].tolist()) for leaf in self._leaves]
        changed = bool(self._seen) and seen != self._seen
        self._seen = seen
        return changed


def _smallest(roots: Any) -> list[Any]:
    """The smallest leaves of the graph that are on the CPU."""
    waiting = [root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None]
    known = set(waiting)
    found: dict[int, Any] = {}
    while waiting and len(known) < _MOST_NODES:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None and variable.device.type == "cpu":
            found[id(variable)] = variable
        for following, _ in node.next_functions:
            if following is not None and following not in known:
                known.add(following)
                waiting.append(following)
    return sorted(found.values(), key=lambda leaf: leaf.numel())[:_MOST_LEAVES]
