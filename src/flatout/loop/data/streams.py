"""Random number streams, the global ones and those inside a loader: captured and put back as plain data.

A captured state holds only tensors, numbers, strings, tuples, lists and dicts, so that
`torch.load(weights_only=True)` reads it back.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from flatout.loop.data.inside import things_inside


def capture_rng(device: torch.device | None = None) -> dict[str, Any]:
    """The states of Python's, NumPy's (where it is imported) and PyTorch's global streams, and of `device`'s.

    None is for the CPU alone. PyTorch's are of this process's device only.
    """
    state = as_plain(snapshot())
    if device is not None and device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    if device is not None and device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_rng(state: Mapping[str, Any], device: torch.device | None = None) -> None:
    """Put back what `capture_rng` gave; streams that the state does not hold stay as they are."""
    if "python" in state:
        _set(random, state["python"])
    if "torch" in state:
        torch.set_rng_state(state["torch"])
    if "numpy" in state:
        _set(numpy_global(), state["numpy"])
    if device is not None and device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
    if device is not None and device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(state["mps"])


def snapshot(*, only_torch: bool = False) -> dict[str, Any]:
    """The global CPU streams' states as each library gives them: three times as fast as plain data (about 40 us).

    `only_torch`: PyTorch's alone, which takes 1 us.
    """
    state: dict[str, Any] = {"torch": torch.get_rng_state()}
    if only_torch:
        return state
    state["python"] = random.getstate()
    if "numpy" in sys.modules:
        state["numpy"] = _get(numpy_global())
    return state


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Those states of the snapshot `before` that are others now, as plain data."""
    return as_plain({name: state for name, state in before.items() if not same_state(state, now.get(name))})


def as_plain(states: Mapping[str, Any]) -> dict[str, Any]:
    """Snapshots as tensors, numbers, strings and containers of these."""
    return {name: _to_plain(state) for name, state in states.items()}


def numpy_global() -> Any:
    import numpy

    return numpy.random


class Streams:
    """Every stream that a loader may draw from on the CPU: the global ones, and generators kept inside its parts.

    `parts` is asked each time: the generators of a dataset may be made late.
    """

    def __init__(self, parts: Callable[[], Mapping[str, Any]]) -> None:
        self._parts = parts

    def capture(self, *, only_torch: bool = False) -> dict[str, Any]:
        """The states of all of them; those of own generators under the path that leads to each."""
        return self.as_plain(self.snapshot(only_torch=only_torch))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put back what `capture` gave."""
        restore_rng(state["global"])
        self.restore_own(state["own"])

    def snapshot(self, *, only_torch: bool = False) -> dict[str, Any]:
        """What `as_plain` makes a captured state of; quicker. `only_torch`: of the global ones PyTorch's alone."""
        return {"global": snapshot(only_torch=only_torch), "own": self._own()}

    @staticmethod
    def as_plain(taken: Mapping[str, Any]) -> dict[str, Any]:
        """A snapshot as plain data."""
        return {name: as_plain(states) for name, states in taken.items()}

    def capture_own(self) -> dict[str, Any]:
        """The states of the generators inside the loader's parts."""
        return as_plain(self._own())

    def _own(self) -> dict[str, Any]:
        return {path: _get(generator) for path, generator in generators_inside(self._parts()).items()}

    def restore_own(self, states: Mapping[str, Any]) -> None:
        """Put back what `capture_own` gave; a generator that is no longer there is left out."""
        for path, generator in generators_inside(self._parts()).items():
            if path in states:
                _set(generator, states[path])


def generators_inside(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Generators of random numbers (PyTorch's, Python's, NumPy's) kept in attributes of `parts`, by path."""
    shared = (torch.default_generator, getattr(random, "_inst", None))
    found = {path: thing for path, thing in things_inside(parts) if _is_generator(thing)}
    return {path: thing for path, thing in found.items() if not any(thing is known for known in shared)}


def _is_generator(thing: Any) -> bool:
    if isinstance(thing, torch.Generator | random.Random):
        return True
    return type(thing).__module__.partition(".")[0] == "numpy" and (
        hasattr(thing, "bit_generator") or type(thing).__name__ == "RandomState"
    )


def _get(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if hasattr(generator, "getstate"):
        return generator.getstate()
    if hasattr(generator, "get_state"):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif hasattr(generator, "setstate"):
        generator.setstate((state["version"], tuple(state["words"].tolist()), state["gauss"]))
    elif hasattr(generator, "set_state"):
        generator.set_state(_from_plain(state))
    else:
        generator.bit_generator.state = _from_plain(state)


def _to_plain(state: Any) -> Any:
    """Python's tuple of words as a tensor; NumPy's arrays as (name of the dtype, tensor of the same bits)."""
    if isinstance(state, tuple):
        version, words, gauss = state
        return {"version": version, "words": torch.tensor(words), "gauss": gauss}
    if isinstance(state, dict):
        return {key: _to_plain(value) for key, value in state.items()}
    if isinstance(state, torch.Tensor):
        return state
    if hasattr(state, "dtype") and state.ndim:
        return str(state.dtype), torch.from_numpy(state.view(f"i{state.dtype.itemsize}").copy())
    return state.item() if hasattr(state, "item") else state


def _from_plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _from_plain(value) for key, value in state.items()}
    return state[1].numpy().view(state[0]).copy() if isinstance(state, tuple) else state


def same_state(one: Any, other: Any) -> bool:
    """Whether two states are equal, both captured or both snapshots."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other) == 2:
        return all(map(same_state, one, other))  # an array as plain data
    equal = one == other
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
