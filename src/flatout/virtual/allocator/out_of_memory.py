"""Out of memory: what the allocator knew when it gave up, and PyTorch's words for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class OutOfDeviceMemory(Exception):
    """The device has no room for a request, with everything returnable returned. All fields are bytes.

    `requested_bytes` is what the caller asked for, `attempted_bytes` the segment that was asked of the device for it;
    `free_bytes` and `total_bytes` are what `cudaMemGetInfo` says; `limit_bytes` is the memory fraction's limit or None;
    `private_pools_bytes` is cached in the pools of CUDA graphs; `outside_bytes` is in use outside the allocator.
    """

    requested_bytes: int
    attempted_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    free_bytes: int
    total_bytes: int
    outside_bytes: int
    limit_bytes: int | None = None
    private_pools_bytes: int = 0

    def __str__(self) -> str:
        return out_of_memory_message(self)


def format_size(size_bytes: int) -> str:
    """A size as PyTorch prints it: ``20.00 MiB``; a unit is kept up to and including 1024 of it."""
    if size_bytes <= 1 << 10:
        return f"{size_bytes} bytes"
    for shift, unit in ((10, "KiB"), (20, "MiB")):
        if size_bytes <= 1 << (shift + 10):
            return f"{size_bytes / (1 << shift):.2f} {unit}"
    return f"{size_bytes / (1 << 30):.2f} GiB"


def out_of_memory_message(
    failure: OutOfDeviceMemory, device_index: int = 0, torch_version: tuple[int, int] = (2, 13)
) -> str:
    """The text of `torch.OutOfMemoryError`, double spaces included.

    The environment variable that it recommends was renamed in its text with PyTorch 2.10.
    """
    variable = "PYTORCH_ALLOC_CONF" if torch_version >= (2, 10) else "PYTORCH_CUDA_ALLOC_CONF"
    allowed = "" if failure.limit_bytes is None else f"{format_size(failure.limit_bytes)} allowed; "
    private = failure.private_pools_bytes
    in_private = f"with {format_size(private)} allocated in private pools (e.g., CUDA Graphs), " if private else ""
    unallocated = failure.reserved_bytes - failure.allocated_bytes - private
    return (
        f"CUDA out of memory. Tried to allocate {format_size(failure.attempted_bytes)}."
        f" GPU {device_index} has a total capacity of {format_size(failure.total_bytes)}"
        f" of which {format_size(failure.free_bytes)} is free."
        f" Including non-PyTorch memory, this process has"
        f" {format_size(failure.outside_bytes + failure.reserved_bytes)} memory in use. {allowed}"
        f"Of the allocated memory {format_size(failure.allocated_bytes + private)} is allocated by PyTorch, "
        f"{in_private}"
        f"and {format_size(unallocated)} is reserved by PyTorch but unallocated."
        f" If reserved but unallocated memory is large try setting {variable}=expandable_segments:True to avoid"
        " fragmentation.  See documentation for Memory Management "
        " (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
