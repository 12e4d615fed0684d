"""A DataLoader prepared for the loop: batches on the device, announced in the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from flatout.loop.cursor import Batch, Cursor
from flatout.loop.device import move
from flatout.loop.distributed import Ranks
from flatout.loop.sharding import EpochPlan


class PreparedLoader:
    """The batches of `source`, each on the device and announced in the cursor before it is handed out."""

    def __init__(self, source: DataLoader[Any], device: torch.device, ranks: Ranks, cursor: Cursor) -> None:
        self.source = source
        self._device = device
        self._ranks = ranks
        self._cursor = cursor

    def __len__(self) -> int:
        return len(self.source)

    @property
    def plan(self) -> EpochPlan | None:
        """The sizes of an epoch's batches; None where they are not known before it starts."""
        if self.source.batch_size is None:
            return None
        return EpochPlan(len(self.source.sampler), self.source.batch_size, 1, self.source.drop_last)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        plan, batches = self.plan, len(self)
        try:
            for number, batch in enumerate(self.source):
                samples = plan.total_in(number) if plan else None
                self._cursor.batch = Batch(number, samples, number + 1 == batches, plan)
                yield move(batch, self._device)
        finally:
            self._cursor.batch = None
