"""Means of what is logged, kept on the device and read rarely, because reading makes the host wait for the GPU."""

from __future__ import annotations

from typing import Any

import torch

from flatout.loop.distributed import Ranks

FOLD_AFTER = 64  # values kept as they are before they are added up in one kernel


class Metrics:
    """Weighted running means by name."""

    def __init__(self, device: torch.device, ranks: Ranks) -> None:
        self._device = device
        self._ranks = ranks
        self._waiting: dict[str, list[tuple[torch.Tensor, float]]] = {}
        self._sums: dict[str, torch.Tensor] = {}  # name -> [sum of weight * value, sum of weights], float64

    def add(self, name: str, value: Any, weight: float) -> None:
        """Take in a value: a number, or a tensor (its mean is taken). Never waits for the device."""
        if weight == 0:
            return  # a repeated batch, which may hold anything
        value = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value, device=self._device)
        waiting = self._waiting.setdefault(name, [])
        waiting.append((value.float().mean(), weight))
        if len(waiting) >= FOLD_AFTER:
            self._fold(name)

    def _fold(self, name: str) -> None:
        waiting = self._waiting.pop(name, [])
        if not waiting:
            return
        kind = torch.float32 if self._device.type == "mps" else torch.float64
        values = torch.stack([value for value, _ in waiting]).to(kind)
        weights = torch.tensor([weight for _, weight in waiting], dtype=kind, device=self._device)
        sums = torch.stack([(values * weights).sum(), weights.sum()])
        self._sums[name] = self._sums[name] + sums if name in self._sums else sums

    def read(self) -> dict[str, float]:
        """The means since the last reading, over all ranks. Waits for the device once."""
        for name in list(self._waiting):
            self._fold(name)
        names = sorted({name for told in self._ranks.gather(list(self._sums)) for name in told})
        if not names:
            return {}
        kind = torch.float32 if self._device.type == "mps" else torch.float64
        nothing = torch.zeros(2, dtype=kind, device=self._device)  # a rank that had no batch takes part too
        sums = self._ranks.sum(torch.stack([self._sums.get(name, nothing) for name in names]), self._device)
        self._sums.clear()
        return {name: total / weight for name, (total, weight) in zip(names, sums.tolist())}

    def state_dict(self) -> dict[str, Any]:
        """What was taken in since the last reading, to the last bit: also what is not added up yet."""
        waiting = {
            name: {"values": torch.stack([value for value, _ in pairs]), "weights": [weight for _, weight in pairs]}
            for name, pairs in self._waiting.items()
        }
        return {"waiting": waiting, "sums": dict(self._sums)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, forgetting what is here."""
        self._waiting = {
            name: list(zip(pairs["values"].to(self._device).unbind(), pairs["weights"], strict=True))
            for name, pairs in state["waiting"].items()
        }
        self._sums = {name: sums.to(self._device, copy=True) for name, sums in state["sums"].items()}
