"""How long a matrix product takes when it is cut into tiles that multiprocessors work off in waves.

A library has kernels for several tile sizes and may also cut the depth into parts; the fastest choice is taken. Small
tiles use the datapath worse, large ones leave multiprocessors idle in the last wave or reach over the edge.
"""

from __future__ import annotations

from functools import lru_cache

from flatout.costs.cost import Product

_SHAPES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 32))
DEPTH_STEP = 32
LEAST_DEPTH = 256
MOST_SPLITS = 64


@lru_cache(maxsize=1 << 16)
def tiled_operations(product: Product, multiprocessors: int, tile_half: float, prologue_depth: float) -> float:
    """Operations that all multiprocessors together could have done at full rate in the time of the product.

    At least ``product.flops``: the rest is lost to edges, idle multiprocessors, small tiles, and the start of tiles.
    `tile_half` and `prologue_depth` as in `Efficiency`.
    """
    best = float("inf")
    for rows, columns in _SHAPES:
        tiles = product.batch * -(-product.rows // rows) * -(-product.columns // columns)
        side = rows * columns / (rows + columns) * 2
        worth = 2 * rows * columns * multiprocessors * (side + tile_half) / side
        splits = 1
        while True:
            depth = -(-product.depth // (splits * DEPTH_STEP)) * DEPTH_STEP
            waves = -(-tiles * splits // multiprocessors)
            # Each part of the depth writes its sums, and somebody adds them up: as one more prologue.
            lost = prologue_depth * (1 if splits == 1 else 2)
            best = min(best, waves * worth * (depth + lost))
            splits *= 2
            if splits > MOST_SPLITS or depth < 2 * LEAST_DEPTH or waves > 8:
                break
    return best
