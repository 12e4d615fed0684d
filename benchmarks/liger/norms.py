"""Normalisation: the rows `rms_norm`, `layer_norm`, `fused_add_rms_norm` and `megatron_rms_norm`."""

from __future__ import annotations

from typing import Any

import torch
from modes import Step, dtype_of


def _llama_rms_norm(size: int, eps: float) -> Any:
    class LlamaRMSNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(size))

        def forward(self, hidden: Any) -> Any:
            dtype = hidden.dtype
            hidden = hidden.to(torch.float32)
            variance = hidden.pow(2).mean(-1, keepdim=True)
            hidden = hidden * torch.rsqrt(variance + eps)
            return self.weight * hidden.to(dtype)

    return LlamaRMSNorm().to("cuda")


def rms_norm(config: dict[str, Any], mode: str) -> Step:
    size = config["H"]
    others = torch.nn.Parameter(torch.ones(size, device="cuda"))  # the other provider's layer is made as well
    layer = _llama_rms_norm(size, config["eps"])
    return _with_gradient(layer, (config["M"], size), dtype_of(config), others)


def _with_gradient(layer: Any, shape: tuple[int, ...], dtype: Any, *kept: Any) -> Step:
    x = torch.randn(shape, dtype=dtype, device="cuda")
    dy = torch.randn_like(x)
    x.requires_grad_(True)

    def full(kept: Any = kept) -> None:
        y = layer(x)
        y.backward(dy, retain_graph=True)

    return full


def layer_norm(config: dict[str, Any], mode: str) -> Step:
    size = config["N"]
    others = [torch.nn.Parameter(torch.ones(size, device="cuda")) for _ in range(2)]
    layer = torch.nn.LayerNorm(size, eps=config["eps"]).to("cuda")
    return _with_gradient(layer, (config["M"], size), dtype_of(config), others)


def fused_add_rms_norm(config: dict[str, Any], mode: str) -> Step:
    shape = (config["M"], config["H"])
    weights = [torch.nn.Parameter(torch.ones(shape[1], device="cuda")) for _ in range(4)]
    x, r = (torch.randn(shape, dtype=dtype_of(config), device="cuda") for _ in range(2))
    dy, ds = torch.randn_like(x), torch.randn_like(r)
    x.requires_grad_(True)
    r.requires_grad_(True)

    def layer(hidden: Any, residual: Any) -> Any:
        dtype = hidden.dtype
        hidden, residual = hidden.to(torch.float32), residual.to(torch.float32)
        hidden = hidden + residual
        residual = hidden
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + config["eps"])
        return weights[0] * hidden.to(dtype), residual.to(dtype)

    def full() -> None:
        y, s = layer(x, r)
        torch.autograd.backward((y, s), (dy, ds))

    return full


def megatron_rms_norm(config: dict[str, Any], mode: str) -> Step:
    layer = torch.nn.RMSNorm(config["H"], eps=1e-6).to("cuda").to(torch.bfloat16)
    x = torch.randn(config["S"], config["B"], config["H"], device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def full() -> None:
        y = layer(x)
        y.sum().backward()

    return full
