"""How much of a model really ran in low precision: counted in the first step, so that "AMP on" is seen to be on.

The graph that autograd has recorded of the loss names each operation and the dtype of its result. It is read just
before the first backward pass. Nothing is intercepted: what is computed, and what torch.compile does, stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

import torch

PRODUCTS = re.compile(
    r"^(Addmm|Mm|Bmm|Baddbmm|Addbmm|Mv|Addmv|Linear|MkldnnLinear|MpsLinear|GroupedMm|ScaledMm|ForeachMm|Trilinear"
    r"|\w*Convolution\w*?|Conv\w+?|SlowConv\w+?|ScaledDotProduct\w+?|FlashAttention\w+?|EfficientAttention\w+?"
    r"|CudnnAttention\w+?|CudnnRnn|MiopenRnn|MkldnnRnnLayer|LstmMps)Backward\d*$"
)
COMPILED = re.compile(r"^CompiledFunction")
LOW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
AIM = 0.5  # below this share a likely reason is named


class Share:
    """Matrix products, convolutions and attention of the losses seen: `low` of `total` in 16 bits or fewer."""

    def __init__(self, mode: str) -> None:
        self.low = 0
        self.total = 0
        self.compiled = False
        self._mode = mode

    def count(self, loss: torch.Tensor) -> None:
        """Take in the graph of a loss."""
        waiting: list[Any] = [loss.grad_fn]
        seen: set[Any] = {None}
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            name = node.name().rpartition("::")[2]
            self.compiled = self.compiled or COMPILED.match(name) is not None
            results = getattr(node, "_input_metadata", None)
            if results and PRODUCTS.match(name):
                self.total += 1
                self.low += results[0].dtype in LOW
            waiting.extend(following for following, _ in node.next_functions)

    @property
    def value(self) -> float | None:
        """The share, from 0 to 1; None where nothing could be counted."""
        return self.low / self.total if self.total else None

    def __str__(self) -> str:
        if self.value is None and self.compiled:
            return "the model is compiled; what ran in which precision inside of it is not counted"
        if self.value is None:
            return (
                f"precision is {self._mode}, but the loss depends on no matrix product or convolution; is the forward "
                "pass inside `with loop.step():`?"
            )
        text = f"{self.low} of {self.total} matrix products and convolutions ran in {self._mode} ({self.value:.0%})" + (
            "; compiled parts are not counted" if self.compiled else ""
        )
        if self.value >= AIM:
            return text
        return (
            f"{text}: the rest ran in float32; is the forward pass outside of `with loop.step():`, or does the model "
            "switch autocast off, or cast to float32 itself?"
        )
