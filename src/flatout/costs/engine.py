"""What does the arithmetic on a GPU, how fast at most, and how fast for as long as the power lasts.

The sustained rate is a matter of power on boards that have many units and few watts (L4, T4): the energy of an
operation grows about with the feature size of the process, so `energy` holds one constant for each engine.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from flatout.costs.cost import TENSOR_CORES, Datapath
from flatout.gpu import GPU

EngineName: TypeAlias = Literal["tensor", "cores64", "cores128"]
"""Tensor cores; ordinary cores of a multiprocessor with up to 64 lanes, which its shared memory can feed; or with 128,
which it cannot quite (8 x 8 elements a thread need 128 bytes a clock for 128 lanes, all that there is)."""

PROCESS_NANOMETRES = {
    (6, 0): 16, (6, 1): 16, (7, 0): 12, (7, 5): 12, (8, 0): 7, (8, 6): 8, (8, 7): 8, (8, 9): 5, (9, 0): 4,
    (10, 0): 4, (10, 3): 4, (12, 0): 5,
}  # fmt: skip
"""Process of the chips by compute capability. Source: NVIDIA's architecture whitepapers (4N and 4NP count as 4 at
Hopper and data-centre Blackwell, as 5 for GeForce Blackwell's 4N-class GB20x, whose clocks are as Ada's)."""

HEADROOM = 1.25
"""GeForce boards clock above the boost clock of their data sheet: the highest clock that nvidia-smi reports is 2100 MHz
for an RTX 3090 (sheet: 1695) and 3105 MHz for an RTX 4090 (sheet: 2520), 24 % and 23 % above."""

HEADROOM_USED = 0.5
"""How much of that headroom a long run has: half, assumed. The share of the peak that tensor cores reach is
fitted on an RTX 3090 relative to it."""


class Engine(NamedTuple):
    """The engine that a datapath runs on. `rate` is the data sheet's, in operations per second."""

    name: EngineName
    rate: float


def engine(gpu: GPU, datapath: Datapath) -> Engine:
    """What runs that datapath on that GPU: where it lacks the tensor cores for it, the ordinary cores do."""
    rates = gpu.rates
    found = None if datapath == "memory" else getattr(rates, datapath)
    if datapath in TENSOR_CORES and found is not None:
        return Engine("tensor", found)
    rate = rates.fp32
    if datapath in ("fp64", "fp64_tensor"):
        rate = rates.fp64 or rates.fp32 / 64
    return Engine(_cores(gpu), rate)


def _cores(gpu: GPU) -> EngineName:
    if gpu.boost_hz is None:
        return "cores128" if gpu.compute_capability in ((6, 1), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)) else "cores64"
    lanes = gpu.rates.fp32 / (2 * gpu.multiprocessors * gpu.boost_hz)
    return "cores128" if lanes > 96 else "cores64"


def _is_geforce(gpu: GPU) -> bool:
    return "geforce" in gpu.name.lower()


def highest_rate(gpu: GPU, datapath: Datapath) -> float:
    """The rate at the highest clock that the board can take, in operations per second."""
    rate = engine(gpu, datapath).rate
    return rate * HEADROOM if _is_geforce(gpu) else rate


def sustained_rate(gpu: GPU, which: Engine, share: float, energy: float) -> float:
    """Operations per second of a long run: the share of the peak that kernels reach, or what the power is enough for.

    `energy` is in picojoules for each operation and nanometre.
    """
    rate = which.rate * share
    if _is_geforce(gpu):
        rate *= 1 + (HEADROOM - 1) * HEADROOM_USED
    nanometres = PROCESS_NANOMETRES.get(gpu.compute_capability)
    if gpu.tdp_watts is None or nanometres is None:
        return rate
    return min(rate, gpu.tdp_watts / (energy * nanometres * 1e-12))
