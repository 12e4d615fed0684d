"""Activations, gated layers and tables: the rows `relu_squared`, `megatron_swiglu`, `swiglu`, `geglu`, `embedding`."""

from __future__ import annotations

from typing import Any

import torch
from modes import Step, by_mode, dtype_of


def megatron_swiglu(config: dict[str, Any], mode: str) -> Step:
    shape = (config["S"], config["B"], 2 * config["ffn_local"])
    x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def swiglu(y: Any) -> Any:
        first, second = torch.chunk(y, 2, -1)
        return torch.nn.functional.silu(first) * second

    def full() -> None:
        if x.grad is not None:
            x.grad = None
        y = swiglu(x)
        y.sum().backward()

    return full


def relu_squared(config: dict[str, Any], mode: str) -> Step:
    x = torch.randn(config["N"], device="cuda", dtype=dtype_of(config), requires_grad=True)

    def full() -> None:
        y = torch.square(torch.nn.functional.relu(x))
        y.backward(torch.ones_like(y), retain_graph=True)

    return full


def gated(config: dict[str, Any], mode: str) -> Step:
    """Hugging Face's ``LlamaMLP``, for the rows `swiglu`, `geglu` and their tiled variants."""

    class MLP(torch.nn.Module):
        def __init__(self, hidden: int, inner: int, act: str) -> None:
            super().__init__()
            self.gate_proj = torch.nn.Linear(hidden, inner, bias=False)
            self.up_proj = torch.nn.Linear(hidden, inner, bias=False)
            self.down_proj = torch.nn.Linear(inner, hidden, bias=False)
            self.act = torch.nn.SiLU() if act == "silu" else torch.nn.GELU(approximate="tanh")

        def forward(self, x: Any) -> Any:
            return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))

    dtype = dtype_of(config)
    batch = config.get("bsz", config.get("B"))
    # The rows come from one process that had run forward and backward before: both workspaces of cuBLAS were there.
    warm = torch.ones(2, 2, device="cuda", requires_grad=True)
    (warm @ warm).sum().backward()
    del warm
    x = torch.randn(batch, config["T"], config["hidden_size"], device="cuda", dtype=dtype, requires_grad=True)
    layer = MLP(config["hidden_size"], config["intermediate_size"], config["hidden_act"]).to("cuda").to(dtype)
    return by_mode(lambda: layer(x), x, mode)


def embedding(config: dict[str, Any], mode: str) -> Step:
    """Two tables are made, and a third name for one of them."""
    table, others = (torch.nn.Embedding(config["V"], config["D"]).to("cuda").to(dtype_of(config)) for _ in range(2))
    ids = torch.randint(0, config["V"], (config["B"], config["T"]), device="cuda")

    def full(kept: Any = others) -> None:
        output = table(ids)
        output.backward(torch.randn_like(output))

    return full
