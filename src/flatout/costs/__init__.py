"""What an operation costs: FLOPs, bytes, kernels, and its time on a GPU."""

from flatout.costs import formulas
from flatout.costs.cost import FREE, Cost, Kernel, Product
from flatout.costs.operation import Operation, TensorType
from flatout.costs.table import cost

__all__ = [
    "FREE",
    "Cost",
    "Kernel",
    "Operation",
    "Product",
    "TensorType",
    "cost",
    "formulas",
]
