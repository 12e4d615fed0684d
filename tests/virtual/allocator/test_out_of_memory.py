from __future__ import annotations

import pytest

from flatout.virtual.allocator import OutOfDeviceMemory, format_size, out_of_memory_message
from flatout.virtual.allocator.sizes import MIB

GIB = 1 << 30


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1024, "1024 bytes"),
        (1025, "1.00 KiB"),
        (MIB, "1024.00 KiB"),
        (20 * MIB, "20.00 MiB"),
        (GIB, "1024.00 MiB"),
        (int(14.75 * GIB), "14.75 GiB"),
    ],
)
def test_sizes_as_pytorch_prints_them(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def failure(limit_bytes: int | None = None) -> OutOfDeviceMemory:
    return OutOfDeviceMemory(
        requested_bytes=130 * MIB - 1,
        attempted_bytes=130 * MIB,
        allocated_bytes=11 * GIB,
        reserved_bytes=11 * GIB + 100 * MIB,
        free_bytes=30 * MIB,
        total_bytes=12 * GIB,
        outside_bytes=200 * MIB,
        limit_bytes=limit_bytes,
    )


# The sentence of PyTorch 2.10 and later, as its users paste it into issues, with this test's numbers.
EXPECTED = (
    "CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 12.00 GiB of which 30.00 MiB is"
    " free. Including non-PyTorch memory, this process has 11.29 GiB memory in use. Of the allocated memory 11.00 GiB"
    " is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated"
    " memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See"
    " documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


def test_the_message_is_pytorchs() -> None:
    assert out_of_memory_message(failure()) == str(failure()) == EXPECTED


def test_older_versions_name_the_older_variable() -> None:
    older = EXPECTED.replace("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF").replace("GPU 0", "GPU 3")
    assert out_of_memory_message(failure(), device_index=3, torch_version=(2, 6)) == older


def test_the_limit_is_named_where_there_is_one() -> None:
    assert "memory in use. 6.00 GiB allowed; Of the" in out_of_memory_message(failure(6 * GIB))
