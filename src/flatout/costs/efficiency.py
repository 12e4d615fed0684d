"""How much of its datasheet a GPU reaches: a few constants that mean something, read from one file.

`data/efficiency.toml` says when each was fitted and on what; `benchmarks/accuracy/fit_costs.py` writes it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

FILE = Path(__file__).parent / "data" / "efficiency.toml"


class Efficiency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The constants of the time model.

    Attributes:
        launch_seconds: from the end of one kernel to the work of the next, on a queue that is never empty.
        datapath: share of the peak rate that large products reach, by `Engine` (see `flatout.costs.engine`).
        compute: by kind of kernel, relative to `datapath`; 1 for a kind that is not named.
        memory: by kind of kernel, share of the bandwidth of the memory; "other" for a kind that is not named.
        tile_half: side of a square tile, in elements, at which half the rate is reached, by `Engine`.
        prologue_depth: what starting and ending a tile costs, in steps of its inner loop.
        unaligned: share of the rate that is left where rows start on 8 bytes and not on 16; its square where they start
            on 4, its cube where they start on 2.
        cache_speed: bandwidth of the L2 cache, relative to that of the memory.
        energy: picojoules for each operation and each nanometre of the process, by `Engine`.
    """

    launch_seconds: float
    datapath: dict[str, float]
    compute: dict[str, float]
    memory: dict[str, float]
    tile_half: dict[str, float]
    prologue_depth: dict[str, float]
    unaligned: float
    cache_speed: float
    energy: dict[str, float]

    def of_compute(self, kind: str) -> float:
        """How well kernels of that kind use the datapath, relative to large products."""
        return self.compute.get(kind, 1.0)

    def of_memory(self, kind: str) -> float:
        """Share of the memory's bandwidth that kernels of that kind reach."""
        found = self.memory.get(kind)
        return self.memory["other"] if found is None else found


@lru_cache(maxsize=1)
def fitted() -> Efficiency:
    """The constants that flatout ships."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    content.pop("fitted")
    return msgspec.convert(content, Efficiency)
