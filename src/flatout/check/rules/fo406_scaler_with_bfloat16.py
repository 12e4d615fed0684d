"""FO406: a GradScaler for training in bfloat16, whose range is that of float32."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.check.contexts import as_autocast
from flatout.check.devices import keyword
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import scaler_calls
from flatout.check.torch_api import AUTOCASTS, SCALERS


def find(module: Module) -> Iterator[Hit]:
    regions = [as_autocast(module, call) for call in module.calls(*sorted(AUTOCASTS))]
    if not regions or any(region is None or region.dtype != "torch.bfloat16" for region in regions):
        return
    if not scaler_calls(module, "scale"):
        return
    for call in module.calls(*sorted(SCALERS)):
        enabled = keyword(call, "enabled")
        if any(item.arg is None for item in call.keywords) or len(call.args) > 1:
            continue
        if enabled is not None and module.constant(enabled) is not True:
            continue
        region = regions[0]
        assert region is not None
        yield Hit(
            call,
            f"this GradScaler serves bfloat16 (autocast in line {region.call.lineno}), which has the range of "
            "float32 and "
            "needs no loss scaling: each step pays for unscaling, the check for inf and the wait for its result",
            "Take the scaler away: `loss.backward()` and `optimizer.step()`.",
            evidence={"autocast_line": region.call.lineno},
        )


RULE = Rule("FO406", "scaler-with-bfloat16", "medium", find, needs=("GradScaler",))
