"""How far the two lanes of a simulated step may be from the real ones."""

KERNELS_UNCERTAINTY = 1.2
HOST_UNCERTAINTY = 1.5
"""Kernels and the host may be so many times faster or slower than they are taken to be. With that of kernels four
steps in five were as near to what was measured; that of the host is assumed (docs/costs.md, "Low and high")."""
