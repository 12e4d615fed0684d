"""Operators that C++ composes of others on every device, after a check of its own that would name native devices."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.dispatch import Operator, stands_in


@stands_in("embedding", "_pack_padded_sequence")
def composed(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """The check is in `flatout.virtual.cuda_errors.stand_ins`."""
    return op.overload._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
