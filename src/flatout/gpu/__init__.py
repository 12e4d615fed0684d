"""What a GPU is: specifications (each number with its source), names, and the users' own GPUs."""

from flatout.gpu.capability import Limits, limits, workspace_bytes
from flatout.gpu.names import find, nearest
from flatout.gpu.specification import GPU, ComputeCapability, Rates, Source
from flatout.gpu.table import all_gpus, user_file

__all__ = [
    "GPU",
    "ComputeCapability",
    "Limits",
    "Rates",
    "Source",
    "all_gpus",
    "find",
    "limits",
    "nearest",
    "user_file",
    "workspace_bytes",
]
