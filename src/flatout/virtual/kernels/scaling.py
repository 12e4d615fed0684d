"""Loss scaling: what ``torch.amp.GradScaler`` asks of the GPU. Invented gradients are finite: every step is taken."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from flatout.virtual import machine as machines
from flatout.virtual import values
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index


@stands_in("_amp_foreach_non_finite_check_and_unscale_")
def check_and_unscale(
    op: Operator, gradients: Sequence[torch.Tensor], found_infinite: torch.Tensor, inverse_scale: torch.Tensor
) -> None:
    """In place on the gradients; ``found_infinite`` stays what it was unless a known gradient is not finite."""
    machines.current().operations += 1
    scale = values.real(inverse_scale)
    found = values.real(found_infinite)
    for gradient in gradients:
        known = values.real(gradient) if native_index(gradient) else None
        if known is None or scale is None:
            if native_index(gradient):
                values.forget(gradient)
            continue
        if found is not None and not torch.isfinite(known).all():
            found.fill_(1.0)
        known.mul_(scale)
