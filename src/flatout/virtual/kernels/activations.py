"""Derivatives of activations that CUDA computes in one kernel and that come apart on a device PyTorch does not know.

Source: the entries of ``silu_backward`` and ``mish_backward`` in aten/src/ATen/native/native_functions.yaml.
"""

from __future__ import annotations

from typing import Any

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in


@stands_in("silu_backward", "mish_backward")
def one_kernel(op: Operator, *args: Any, **kwargs: Any) -> Any:
    machines.current().operations += 1
    return generic(op, args, kwargs)
