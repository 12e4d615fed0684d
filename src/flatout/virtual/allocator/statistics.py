"""Counts and peaks: what `torch.cuda.memory_stats` reports.

`malloc` and `free` only add to the running totals in `Traffic`. Peaks are looked at where the use turns from rising to
falling, and when somebody asks: between two such points no peak can hide.
"""

from __future__ import annotations

from typing import Any


class Tally:
    """A quantity with its history, one entry of `torch.cuda.memory_stats`."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount: int) -> None:
        self.current += amount
        self.allocated += amount
        if self.current > self.peak:
            self.peak = self.current

    def subtract(self, amount: int) -> None:
        self.current -= amount
        self.freed += amount

    def reset_peak(self) -> None:
        self.peak = self.current

    def reset_accumulated(self) -> None:
        self.allocated = self.freed = 0

    def as_dict(self) -> dict[str, int]:
        return {"current": self.current, "peak": self.peak, "allocated": self.allocated, "freed": self.freed}


class Traffic:
    """Running totals of the small or the large pools. Blocks that wait for a stream count as freed *and* as pending."""

    __slots__ = (
        "allocated_blocks",
        "allocated_bytes",
        "freed_blocks",
        "freed_bytes",
        "freed_requested_bytes",
        "pending_blocks",
        "pending_bytes",
        "pending_requested_bytes",
        "requested_bytes",
    )

    def __init__(self) -> None:
        self.allocated_blocks = self.allocated_bytes = self.requested_bytes = 0
        self.freed_blocks = self.freed_bytes = self.freed_requested_bytes = 0
        self.pending_blocks = self.pending_bytes = self.pending_requested_bytes = 0

    def totals(self) -> dict[str, tuple[int, int]]:
        """For each statistic, what was ever added and what was ever taken away."""
        return {
            "allocation": (self.allocated_blocks, self.freed_blocks),
            "active": (self.allocated_blocks, self.freed_blocks - self.pending_blocks),
            "allocated_bytes": (self.allocated_bytes, self.freed_bytes),
            "active_bytes": (self.allocated_bytes, self.freed_bytes - self.pending_bytes),
            "requested_bytes": (self.requested_bytes, self.freed_requested_bytes - self.pending_requested_bytes),
        }


_KINDS = ("all", "small_pool", "large_pool")
_TRAFFIC_NAMES = ("allocation", "active", "allocated_bytes", "active_bytes", "requested_bytes")
_TALLY_NAMES = ("segment", "reserved_bytes", "inactive_split", "inactive_split_bytes")


class Statistics:
    """Everything that `torch.cuda.memory_stats` reports, and the rules by which it changes."""

    def __init__(self) -> None:
        self.small = Traffic()
        self.large = Traffic()
        self.tallies = {name: {kind: Tally() for kind in _KINDS} for name in _TALLY_NAMES}
        self.oversize_allocations = Tally()
        self.oversize_segments = Tally()
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0
        self._peaks = {kind: dict.fromkeys(_TRAFFIC_NAMES, 0) for kind in _KINDS}
        self._bases = {kind: dict.fromkeys(_TRAFFIC_NAMES, (0, 0)) for kind in _KINDS}
        self._split_blocks = self.tallies["inactive_split"]
        self._split_bytes = self.tallies["inactive_split_bytes"]
        # The highest values so far of what the quick look of `note_peaks` compares.
        self._high = [0] * 9

    def note_peaks(self) -> None:
        """Looks whether any use is at a new high. To be called before any use falls."""
        small, large, high = self.small, self.large, self._high
        small_blocks = small.allocated_blocks - small.freed_blocks
        small_bytes = small.allocated_bytes - small.freed_bytes
        small_requested = small.requested_bytes - small.freed_requested_bytes
        large_blocks = large.allocated_blocks - large.freed_blocks
        large_bytes = large.allocated_bytes - large.freed_bytes
        large_requested = large.requested_bytes - large.freed_requested_bytes
        if (
            small_bytes + large_bytes > high[2]
            or small_blocks + large_blocks > high[0]
            or small_requested + large_requested > high[1]
            or large_bytes > high[5]
            or small_bytes > high[8]
            or large_blocks > high[3]
            or small_blocks > high[6]
            or large_requested > high[4]
            or small_requested > high[7]
            or small.pending_blocks
            or large.pending_blocks
        ):
            self._raise_peaks()

    def _raise_peaks(self) -> None:
        for kind, totals in self._totals().items():
            peaks = self._peaks[kind]
            for name, (added, removed) in totals.items():
                if added - removed > peaks[name]:
                    peaks[name] = added - removed
        self._high = [
            self._peaks[kind][name]
            for kind in ("all", "large_pool", "small_pool")
            for name in ("allocation", "requested_bytes", "allocated_bytes")
        ]

    def _totals(self) -> dict[str, dict[str, tuple[int, int]]]:
        small, large = self.small.totals(), self.large.totals()
        both = {name: (small[name][0] + large[name][0], small[name][1] + large[name][1]) for name in _TRAFFIC_NAMES}
        return {"all": both, "small_pool": small, "large_pool": large}

    @property
    def peak_allocated_bytes(self) -> int:
        self.note_peaks()
        return self._peaks["all"]["allocated_bytes"]

    def change_reserved(self, change_bytes: int, is_small: bool, segments: int = 0) -> None:
        """Memory came from the device or went back to it; `segments` is +1, -1, or 0 for pages of an expandable one."""
        pools = ("all", "small_pool" if is_small else "large_pool")
        for name, change in (("reserved_bytes", change_bytes), ("segment", segments)):
            for pool in pools:
                tally = self.tallies[name][pool]
                if change > 0:
                    tally.add(change)
                elif change < 0:
                    tally.subtract(-change)

    def change_inactive_split(self, blocks: int, size_bytes: int, is_small: bool) -> None:
        """Free blocks that cannot be returned, because their segment has others in use, became more or fewer."""
        pool = "small_pool" if is_small else "large_pool"
        if size_bytes > 0:
            self._split_bytes["all"].add(size_bytes)
            self._split_bytes[pool].add(size_bytes)
        elif size_bytes < 0:
            self._split_bytes["all"].subtract(-size_bytes)
            self._split_bytes[pool].subtract(-size_bytes)
        if blocks > 0:
            self._split_blocks["all"].add(blocks)
            self._split_blocks[pool].add(blocks)
        elif blocks < 0:
            self._split_blocks["all"].subtract(-blocks)
            self._split_blocks[pool].subtract(-blocks)

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats`: the peaks become what is in use now."""
        for kind, totals in self._totals().items():
            for name, (added, removed) in totals.items():
                self._peaks[kind][name] = added - removed
        for tally in self._all_tallies():
            tally.reset_peak()
        self._raise_peaks()

    def reset_accumulated(self) -> None:
        """As `torch.cuda.reset_accumulated_memory_stats`: history starts anew, current values and peaks stay."""
        self.note_peaks()
        self._bases = self._totals()
        for tally in self._all_tallies():
            tally.reset_accumulated()
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0

    def _all_tallies(self) -> list[Tally]:
        tallies = [tally for kinds in self.tallies.values() for tally in kinds.values()]
        return [*tallies, self.oversize_allocations, self.oversize_segments]

    def as_nested_dict(self, max_split_size_bytes: int | None) -> dict[str, Any]:
        """In the shape and with the keys of `torch.cuda.memory_stats_as_nested_dict`."""
        self.note_peaks()
        nested: dict[str, Any] = {name: {} for name in _TRAFFIC_NAMES}
        for kind, totals in self._totals().items():
            for name, (added, removed) in totals.items():
                base_added, base_removed = self._bases[kind][name]
                nested[name][kind] = {
                    "current": added - removed,
                    "peak": self._peaks[kind][name],
                    "allocated": added - base_added,
                    "freed": removed - base_removed,
                }
        for name, kinds in self.tallies.items():
            nested[name] = {kind: tally.as_dict() for kind, tally in kinds.items()}
        nested["oversize_allocations"] = self.oversize_allocations.as_dict()
        nested["oversize_segments"] = self.oversize_segments.as_dict()
        nested["num_alloc_retries"] = self.num_alloc_retries
        nested["num_ooms"] = self.num_ooms
        nested["num_oom_rejections"] = 0
        nested["num_sync_all_streams"] = self.num_sync_all_streams
        nested["num_device_alloc"] = self.num_device_alloc
        nested["num_device_free"] = self.num_device_free
        nested["max_split_size"] = -1 if max_split_size_bytes is None else max_split_size_bytes
        return nested
