"""What follows from the compute capability alone: limits of a multiprocessor, cuBLAS's workspace, the context."""

from __future__ import annotations

import re

import msgspec

from flatout.gpu.specification import ComputeCapability

KIB = 1024
MIB = 1024**2

CONTEXT_BYTES = 426 * MIB
"""CUDA context with kernels loaded lazily, the default since CUDA 11.7.

An estimate for every model: measured 426 MiB on an RTX 6000 Ada with torch 2.10+cu130 (unslothai/unsloth-zoo#1053). The
context grows with the multiprocessors and with the kernels that a program has touched.
"""
CONTEXT_RANGE_BYTES = (287_047_680, 550 * MIB)
"""287,047,680 bytes were measured just after start (pytorch/pytorch#86509); about 300 and 400 MB are reported as usual
(#107667, #109888). The upper end is a margin, not a measurement."""


class Limits(msgspec.Struct, frozen=True):
    """Limits of one multiprocessor.

    The values are those of the compute-capability table of NVIDIA's CUDA C++ Programming Guide; the ones for 7.0, 7.5,
    8.0 and 12.0 were also seen in public profiler traces and deviceQuery logs.
    """

    shared_memory_per_multiprocessor_bytes: int
    shared_memory_per_block_optin_bytes: int
    max_threads_per_multiprocessor: int
    shared_memory_per_block_bytes: int = 48 * KIB
    registers_per_multiprocessor: int = 65_536
    max_threads_per_block: int = 1024
    warp_size: int = 32


_LIMITS: dict[ComputeCapability, Limits] = {
    (6, 0): Limits(64 * KIB, 48 * KIB, 2048),
    (6, 1): Limits(96 * KIB, 48 * KIB, 2048),
    (7, 0): Limits(96 * KIB, 96 * KIB, 2048),
    (7, 5): Limits(64 * KIB, 64 * KIB, 1024),
    # From 8.0 on, CUDA keeps 1 KiB of each block's shared memory for itself.
    (8, 0): Limits(164 * KIB, 163 * KIB, 2048),
    (8, 6): Limits(100 * KIB, 99 * KIB, 1536),
    (8, 7): Limits(164 * KIB, 163 * KIB, 1536),
    (8, 9): Limits(100 * KIB, 99 * KIB, 1536),
    (9, 0): Limits(228 * KIB, 227 * KIB, 2048),
    (10, 0): Limits(228 * KIB, 227 * KIB, 2048),
    (10, 3): Limits(228 * KIB, 227 * KIB, 2048),
    (12, 0): Limits(100 * KIB, 99 * KIB, 1536),
}


def known_capabilities() -> tuple[ComputeCapability, ...]:
    """The compute capabilities whose limits are known, oldest first."""
    return tuple(sorted(_LIMITS))


def limits(capability: ComputeCapability) -> Limits:
    """Limits of a multiprocessor of this compute capability. Raises `KeyError` for one that is not known."""
    return _LIMITS[capability]


def workspace_bytes(capability: ComputeCapability, config: str | None = None) -> int:
    """Workspace that PyTorch allocates for each pair of cuBLAS handle and stream, in bytes.

    It lives inside the caching allocator. `config` is the value of `CUBLAS_WORKSPACE_CONFIG`, pairs of size in KiB and
    count (`":4096:2:16:8"`); without pairs in it the default holds: 8,519,680 bytes, or 32 MiB from compute capability
    9.0 on (pytorch/pytorch#85447 and, for 10.x to 12.x in 2026, #175344).
    """
    pairs = re.findall(r":(\d+):(\d+)", config or "")
    if pairs:
        return sum(int(size) * int(count) for size, count in pairs) * KIB
    if capability >= (9, 0):
        return 4096 * 8 * KIB
    return (4096 * 2 + 16 * 8) * KIB
