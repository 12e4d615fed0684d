"""Formulas by family of operators. Importing this registers them all in `flatout.costs.table`."""

from flatout.costs.formulas import (  # noqa: F401
    attention,
    convolution,
    copies,
    indexing,
    losses,
    matmul,
    normalization,
    optimizers,
    pointwise,
    pooling,
    recurrent,
    reduction,
)
