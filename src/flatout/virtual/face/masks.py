"""Padding masks of ``nn.TransformerEncoder``, whose true content decides which path it takes and how long its batch is.

PyTorch turns the script's Boolean mask into floats to add, too many for the values lane to carry in general.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flatout.virtual import values
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import allocation_of, is_virtual


def install(patches: Patches) -> None:
    """Carry the content of a known mask along where it becomes floats."""
    plain: Any = F._canonical_mask

    def canonical_mask(mask: torch.Tensor | None, *args: Any, **kwargs: Any) -> Any:
        made = plain(mask, *args, **kwargs)
        if mask is not None and mask.dtype is torch.bool and made is not mask and is_virtual(made):
            known = values.real(mask)
            if known is not None and allocation_of(made).nbytes <= values.INTEGER_LIMIT_BYTES:
                values.know(made, torch.zeros(known.shape, dtype=made.dtype).masked_fill_(known, float("-inf")))
        return made

    patches.set(F, "_canonical_mask", canonical_mask)
