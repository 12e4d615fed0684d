"""How far the two lanes of a simulated step may be from the real ones."""

KERNELS_UNCERTAINTY = 1.2
HOST_UNCERTAINTY = 1.5
"""Kernels and the host may be so many times faster or slower than they are taken to be; four predictions in five are
that near to what was measured (see docs/costs.md)."""
