"""What an operator's setup is given and returns, and the modes in which the project's scripts run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Step: TypeAlias = Callable[[], Any]
"""One run of which the peak is taken."""

Setup: TypeAlias = Callable[[dict[str, Any], str], Step]
"""Makes a row's inputs on the GPU, from its configuration and its mode (forward, backward or full)."""


def dtype_of(config: dict[str, Any]) -> torch.dtype:
    """The data type that the row names, else float32."""
    dtype: torch.dtype = getattr(torch, str(config.get("dtype", "torch.float32")).removeprefix("torch."))
    return dtype


def by_mode(forward: Step, gradient_of: torch.Tensor, mode: str) -> Step:
    """The three modes for a layer with one output."""
    if mode == "forward":
        return forward
    if mode == "backward":
        gradient = torch.randn_like(gradient_of)
        output = forward()
        return lambda: output.backward(gradient, retain_graph=True)

    def full() -> None:
        output = forward()
        output.backward(torch.randn_like(output), retain_graph=True)

    return full


def loss_step(forward: Step, *kept: Any) -> Step:
    """Forward and backward of a loss. `kept` lives beside: what the script made for the other providers."""

    def full(kept: Any = kept) -> None:
        loss = forward()
        loss.backward()

    return full
