"""The memory of one simulated GPU: the caching allocator, plus who holds what and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flatout.recording.schema import Category, Holder, Peak, Phase, Place
from flatout.steps.places import user_place
from flatout.virtual.allocator import CachingAllocator, OutOfDeviceMemory
from flatout.virtual.tensor import Allocation

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

_KEPT_RECORDS = 200_000
_HOLDERS = 40
UNSEEN_RATIO = 0.03
"""The upper bound is at least this much above what was allocated: for temporaries and workspaces not known of.

Source: timm's table of batches that fitted on an RTX 3090 and did not (docs/accuracy.md), the fitting half of its model
families: with 3 % the bound still fits for 118 of 122 batches that fitted (4 %: 115, fewer than nineteen of twenty),
and 2 of 101 batches that failed are called sure to fit.
"""


class Record:
    """What is told of one block. `category` may be corrected later, when it shows what the memory was for."""

    __slots__ = ("born", "category", "died", "phase", "place", "size_bytes", "step")

    def __init__(
        self, born: int, size_bytes: int, category: Category, phase: Phase, step: int, place: Place | None
    ) -> None:
        self.born = born
        self.died: int | None = None
        self.size_bytes = size_bytes
        self.category = category
        self.phase = phase
        self.step = step
        self.place = place


class DeviceMemory:
    """Memory of one GPU. `machine` is set when the machine is put together."""

    machine: Machine

    def __init__(self, index: int, allocator: CachingAllocator) -> None:
        self.index = index
        self.allocator = allocator
        self.sequence = 0
        self.peak_sequence = 0
        self.peak_bytes = 0
        self.upper_extra_bytes = 0
        self.upper_bound_bytes = 0
        self._past_peak_allocated_bytes = 0
        self._past_peak_reserved_bytes = 0
        self._records: list[Record] = []
        self._peak_phase: Phase = "setup"
        self._peak_step = 0
        self._peak_place: Place | None = None

    def allocate(self, nbytes: int, category: Category | None = None) -> Allocation:
        """Memory for one storage. Raises ``torch.OutOfMemoryError`` as PyTorch does."""
        allocation = Allocation(self, self.index, nbytes)
        if nbytes:
            self._place(allocation, nbytes, category)
        return allocation

    def resize(self, allocation: Allocation, nbytes: int) -> None:
        """Give the storage another size, as ``Storage.resize_`` does: new memory, then the old is given back."""
        old_block, old_record = allocation.block, allocation.record
        allocation.block = allocation.record = None
        allocation.nbytes = nbytes
        if nbytes:
            self._place(allocation, nbytes, old_record.category if old_record is not None else None)
        if old_block is not None:
            self._free(old_block, old_record)

    def release(self, allocation: Allocation) -> None:
        """Called by the allocation itself when nothing holds it any longer."""
        if allocation.block is not None:
            self._free(allocation.block, allocation.record)

    def scratch(self, nbytes: int, upper_bytes: int | None = None) -> None:
        """Memory that an operation takes and gives back before it ends: `nbytes`, perhaps up to `upper_bytes`."""
        if nbytes:
            allocation = self.allocate(nbytes, "workspace")
            if allocation.record is not None:
                allocation.record.category = "workspace"
        if upper_bytes is not None and upper_bytes > nbytes:
            free_cached = self.allocator.reserved_bytes - self.allocator.allocated_bytes
            reach = self.allocator.reserved_bytes + max(0, upper_bytes - free_cached)
            self.upper_bound_bytes = max(self.upper_bound_bytes, reach)

    def peak(self) -> Peak:
        """The moment of highest allocated memory, taken apart by category and line."""
        by_category: dict[str, int] = {}
        lines: dict[tuple[Place | None, Category], tuple[int, int]] = {}
        for record in self._records:
            if record.born <= self.peak_sequence and (record.died is None or record.died > self.peak_sequence):
                by_category[record.category] = by_category.get(record.category, 0) + record.size_bytes
                key = (record.place, record.category)
                size, blocks = lines.get(key, (0, 0))
                lines[key] = (size + record.size_bytes, blocks + 1)
        largest = sorted(lines.items(), key=lambda item: -item[1][0])[:_HOLDERS]
        reserved = max(self._past_peak_reserved_bytes, self.allocator.peak_reserved_bytes)
        allocated = max(self._past_peak_allocated_bytes, self.allocator.peak_allocated_bytes)
        # A script that catches running out of memory has been to the limit, and would catch it again.
        adapts = self.machine.out_of_memory_errors > 0
        with_unseen = int(allocated * (1 + UNSEEN_RATIO))
        return Peak(
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            upper_bound_bytes=max(self.upper_bound_bytes, reserved, 0 if adapts else with_unseen),
            step=self._peak_step,
            phase=self._peak_phase,
            place=self._peak_place,
            by_category=by_category,
            holders=tuple(Holder(place, category, size, blocks) for (place, category), (size, blocks) in largest),
        )

    def reset_peaks(self) -> None:
        """As the script asks with ``torch.cuda.reset_peak_memory_stats``: the run's own peak is kept for the report."""
        self._past_peak_allocated_bytes = max(self._past_peak_allocated_bytes, self.allocator.peak_allocated_bytes)
        self._past_peak_reserved_bytes = max(self._past_peak_reserved_bytes, self.allocator.peak_reserved_bytes)
        self.allocator.reset_peaks()

    def live_by_category(self) -> dict[str, int]:
        """Bytes that are allocated now, by what they are for."""
        live: dict[str, int] = {}
        for record in self._records:
            if record.died is None:
                live[record.category] = live.get(record.category, 0) + record.size_bytes
        return live

    def _place(self, allocation: Allocation, nbytes: int, category: Category | None) -> None:
        machine = self.machine
        try:
            block = self.allocator.malloc(nbytes, machine.thread.stream)
        except OutOfDeviceMemory as error:
            machine.out_of_memory_errors += 1
            raise torch.OutOfMemoryError(str(error)) from None
        phase = machine.phase
        self.sequence += 1
        place = user_place()
        record = Record(self.sequence, block.size_bytes, category or _guess(phase), phase, machine.step, place)
        allocation.block, allocation.record = block, record
        self._records.append(record)
        if len(self._records) > _KEPT_RECORDS:
            self._forget()
        allocated = self.allocator.allocated_bytes
        if allocated > self.peak_bytes:
            self.peak_bytes = allocated
            self.peak_sequence = self.sequence
            self._peak_phase, self._peak_step, self._peak_place = phase, machine.step, place
        if machine.writer is not None:
            machine.writer.memory_event(
                "alloc",
                block.address,
                block.size_bytes,
                nbytes,
                block.stream,
                record.category,
                phase,
                machine.step,
                place,
            )

    def _free(self, block: Any, record: Record) -> None:
        machine = self.machine
        self.sequence += 1
        record.died = self.sequence
        self.allocator.free(block)
        if machine.writer is not None:
            machine.writer.memory_event(
                "free",
                block.address,
                record.size_bytes,
                0,
                block.stream,
                record.category,
                machine.phase,
                machine.step,
                None,
            )

    def _forget(self) -> None:
        peak = self.peak_sequence
        self._records = [r for r in self._records if r.died is None or r.born <= peak < r.died]


def _guess(phase: Phase) -> Category:
    if phase == "forward":
        return "activations"
    if phase == "backward":
        return "gradients"
    return "optimizer" if phase == "optimizer" else "other"
