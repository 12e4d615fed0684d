"""How much of the nominal memory CUDA reports as total, where nobody has published it."""

from __future__ import annotations

MIB = 1024**2


def estimate_usable_bytes(memory_bytes: int) -> int:
    """Usable memory in bytes of a GPU with `memory_bytes` of nominal memory: 0.99 x nominal - 320 MiB.

    The driver keeps a fixed part and a part that grows with the memory. Fitted by eye to the reported totals of the
    table (8 GB cards report 7,753 to 7,807 MiB, 32 GB 32,102, H200 143,156): mostly within 0.7 % under recent drivers;
    older ones left up to 4 % more. Too high where ECC takes another sixteenth, as on data-centre cards with GDDR6 (T4,
    L4, A10, A40, L40S); those are in the table with their reported totals.
    """
    return int(0.99 * memory_bytes) - 320 * MIB
