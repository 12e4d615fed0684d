"""What an operation costs: FLOPs, bytes, kernels, and its time on a GPU."""

from flatout.costs import formulas  # noqa: F401  (registers them)
from flatout.costs.cost import FREE, Cost, Kernel, Product
from flatout.costs.efficiency import Efficiency, fitted
from flatout.costs.table import cost
from flatout.costs.time import BoundBy, Limits, bound_by, kernel_limits, lower_bound_seconds, operation_seconds
from flatout.recording.operation import Operation, TensorType

__all__ = [
    "FREE",
    "BoundBy",
    "Cost",
    "Efficiency",
    "Kernel",
    "Limits",
    "Operation",
    "Product",
    "TensorType",
    "bound_by",
    "cost",
    "fitted",
    "kernel_limits",
    "lower_bound_seconds",
    "operation_seconds",
]
