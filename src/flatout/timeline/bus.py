"""The way between host and GPU."""

from __future__ import annotations

from flatout.gpu import GPU

_LANE_BYTES_PER_SECOND = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""One lane, one direction, after line coding. Source: PCI-SIG, PCI Express base specifications 1.0 to 6.0."""


def bus_bytes_per_second(gpu: GPU) -> float:
    """What the bus of that GPU carries in one direction; 16 lanes of the third generation where it is not known."""
    return _LANE_BYTES_PER_SECOND[gpu.pcie_generation or 3] * (gpu.pcie_lanes or 16)
