"""What the backward pass says of GPU tensors when it fails: C++ names the native device."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.cuda_errors import as_shown
from flatout.virtual.face.patches import Patches


def install(patches: Patches) -> None:
    """Errors of ``backward`` and ``torch.autograd.grad`` in the words of a GPU."""
    plain = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return plain(*args, **kwargs)
        except RuntimeError as error:
            said = str(error)
            shown = as_shown(said)
            if shown == said:
                raise
            raise type(error)(shown) from None

    for owner in (torch.autograd.graph, torch.autograd):
        if "_engine_run_backward" in owner.__dict__:
            patches.set(owner, "_engine_run_backward", run_backward)
