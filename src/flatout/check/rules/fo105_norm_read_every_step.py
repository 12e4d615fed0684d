"""FO105: `clip_grad_norm_(error_if_nonfinite=True)` reads the norm of the gradients on the host, every step."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.check.devices import argument, keyword
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

# clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
_POSITION = 3


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    for call in module.calls("torch.nn.utils.clip_grad_norm_"):
        checked = argument(call, _POSITION, "error_if_nonfinite")
        if checked is None or module.constant(checked) is not True:
            continue
        if module.region(call) is None or module.is_rare(call):
            continue
        yield Hit(
            keyword(call, "error_if_nonfinite") or call,
            "`error_if_nonfinite=True` reads the norm of the gradients on every step: the host waits for the GPU",
            "Leave it out, and look at the returned norm now and then; a GradScaler skips such steps by itself.",
        )


RULE = Rule("FO105", "norm-read-every-step", "low", find, needs=("error_if_nonfinite",))
