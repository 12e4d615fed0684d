"""Means of what is logged. Numbers on a GPU are read later: reading at once makes the host wait for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch

from flatout.errors import UsageError
from flatout.loop.later import Later
from flatout.loop.processes.distributed import Ranks


class Metrics:
    """Weighted running means by name. Memory does not grow with the number of values."""

    def __init__(self, device: torch.device, ranks: Ranks) -> None:
        self._device = device
        self._ranks = ranks
        self._later: dict[str, Later] = {}
        self._sums: dict[str, list[float]] = {}  # name -> [sum of weight * value, sum of weights], in double precision
        self._in_evaluation: dict[str, bool] = {}

    def add(self, name: str, value: Any, samples: int | None, *, evaluating: bool = False) -> None:
        """Take in a value. Never waits for the device.

        A number or a tensor of one element counts for `samples` samples (None: 1). Of a tensor with more elements each
        counts as one, unless no sample of the batch counts.
        """
        if self._in_evaluation.setdefault(name, evaluating) != evaluating:
            raise UsageError(
                f"loop.log({name}=...): holds values of training and of evaluation since the last loop.metrics(); read "
                f"metrics() before the evaluation, or give it a name of its own (eval_{name}=...)"
            )
        if type(value) is torch.Tensor and value.dim() == 0 and value.is_floating_point() and readable(value):
            if samples != 0:
                self._take(name, value.item(), 1.0 if samples is None else float(samples))
            return
        if type(value) is float or type(value) is int:
            if samples != 0:
                self._take(name, float(value), 1.0 if samples is None else float(samples))
            return
        tensor = _tensor(name, value)
        count = tensor.numel()
        weight = float(1 if samples is None else samples) if tensor.dim() == 0 or count == 1 else float(count)
        if count == 0 or samples == 0:
            return
        wide = torch.float32 if tensor.device.type == "mps" else torch.float64
        mean = tensor.to(wide).mean()
        if readable(tensor):
            self._take(name, mean.item(), weight)
            return
        later = self._later.setdefault(name, Later())
        later.add(mean, weight)
        for number, its_weight in later.arrived():
            self._take(name, number, its_weight)

    def _take(self, name: str, value: float, weight: float) -> None:
        sums = self._sums.get(name)
        if sums is None:
            sums = self._sums[name] = [0.0, 0.0]
        sums[0] += value * weight
        sums[1] += weight

    def _take_all(self) -> None:
        for name, later in self._later.items():
            for number, weight in later.all():
                self._take(name, number, weight)

    def read(self) -> dict[str, float]:
        """The means since the last reading, over all ranks, in the order of logging. Waits for the device."""
        self._take_all()
        everywhere: dict[str, list[float]] = {}
        for name, (total, weight) in self._of_all_ranks():
            sums = everywhere.setdefault(name, [0.0, 0.0])
            sums[0] += total
            sums[1] += weight
        self._sums.clear()
        self._later.clear()
        self._in_evaluation.clear()
        return {name: total / weight for name, (total, weight) in everywhere.items()}

    def state_dict(self) -> dict[str, Any]:
        """What was taken in since the last reading. Waits for the device."""
        self._take_all()
        return {
            "sums": {name: list(sums) for name, sums in self._sums.items()},
            "evaluating": dict(self._in_evaluation),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, forgetting what is here."""
        self._later.clear()
        self._sums = {name: list(sums) for name, sums in state["sums"].items()}
        self._in_evaluation = dict(state["evaluating"])

    def _of_all_ranks(self) -> Iterator[tuple[str, list[float]]]:
        # As objects, because a rank may have logged a name that another has not.
        for sums in self._ranks.gather(self._sums):
            yield from sums.items()


def readable(tensor: torch.Tensor) -> bool:
    """Whether its value can be read without waiting for it."""
    return tensor.is_cpu


def _tensor(name: str, value: Any) -> torch.Tensor:
    """`value` as a tensor without its graph, where it lies."""
    tensor = None
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
    elif isinstance(value, bool | int | float):
        tensor = torch.tensor(value, dtype=torch.float64)
    elif type(value).__module__ == "numpy":
        with suppress(TypeError, ValueError):
            tensor = torch.as_tensor(value) if value.ndim else torch.tensor(value.item(), dtype=torch.float64)
    if tensor is None or tensor.is_complex():
        raise UsageError(
            f"loop.log({name}=...): takes numbers and tensors of real numbers, not a {type(value).__name__}"
            + (f" of {tensor.dtype}" if tensor is not None else "")
        )
    return tensor
