"""The device under the allocator: how much memory there is, and at which addresses it appears."""

from __future__ import annotations

from bisect import insort

PAGE_BYTES = 2 << 20
"""`cudaMalloc` of a segment takes whole GPU pages of 2 MiB, and its addresses are aligned to them."""
_SEGMENT_BASE = 0x7F20_0000_0000
_RESERVATION_BASE = 0x7A00_0000_0000


class DeviceMemory:
    """A GPU's memory as the CUDA driver hands it out.

    `usable_bytes` is what `cudaMemGetInfo` calls total; `outside_bytes` is taken by the CUDA context and by anything
    else outside PyTorch. Addresses are deterministic: the lowest hole that fits, else upwards.
    """

    def __init__(self, usable_bytes: int, outside_bytes: int = 0) -> None:
        self.usable_bytes = usable_bytes
        self.outside_bytes = outside_bytes
        self.committed_bytes = 0
        self._holes: list[tuple[int, int]] = []
        self._top = _SEGMENT_BASE
        self._reservation_top = _RESERVATION_BASE

    @property
    def free_bytes(self) -> int:
        """What `cudaMemGetInfo` calls free."""
        return max(0, self.usable_bytes - self.outside_bytes - self.committed_bytes)

    def malloc(self, size_bytes: int) -> int | None:
        """The address of new memory (`cudaMalloc`), or None where there is not enough."""
        size_bytes = _whole_pages(size_bytes)
        if not self.commit(size_bytes):
            return None
        for index, (address, hole_bytes) in enumerate(self._holes):
            if hole_bytes >= size_bytes:
                if hole_bytes == size_bytes:
                    del self._holes[index]
                else:
                    self._holes[index] = (address + size_bytes, hole_bytes - size_bytes)
                return address
        address = self._top
        self._top += size_bytes
        return address

    def free(self, address: int, size_bytes: int) -> None:
        """Gives back memory that `malloc` gave (`cudaFree`)."""
        size_bytes = _whole_pages(size_bytes)
        self.uncommit(size_bytes)
        insort(self._holes, (address, size_bytes))
        merged: list[tuple[int, int]] = []
        for start, length in self._holes:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._holes = merged

    def claim(self, address: int, size_bytes: int) -> None:
        """Takes over memory that a device gave elsewhere, at its address and whatever the room."""
        size_bytes = _whole_pages(size_bytes)
        self.committed_bytes += size_bytes
        self._top = max(self._top, address + size_bytes)

    def commit(self, size_bytes: int) -> bool:
        """Takes physical memory without an address (`cuMemCreate`); False where there is not enough."""
        if size_bytes > self.free_bytes:
            return False
        self.committed_bytes += size_bytes
        return True

    def uncommit(self, size_bytes: int) -> None:
        """Gives physical memory back (`cuMemRelease`)."""
        self.committed_bytes -= size_bytes

    def reserve_addresses(self, size_bytes: int) -> int:
        """An address range without memory (`cuMemAddressReserve`)."""
        address = self._reservation_top
        self._reservation_top += _whole_pages(size_bytes)
        return address


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
