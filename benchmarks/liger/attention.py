"""Attention to near neighbours, with a mask over all pairs: the rows `fused_neighborhood_attention`."""

from __future__ import annotations

import math
from typing import Any

import torch
from modes import Step, dtype_of


class NeighborhoodAttention(torch.nn.Module):
    """Of hidden states of shape `(B, S, H)`; every pair of positions is scored, pairs too far apart are masked."""

    def __init__(self, hidden: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query, self.key, self.value, self.out = (torch.nn.Linear(hidden, hidden, bias=bias) for _ in range(4))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, size = hidden.shape
        query, key, value = self.query(hidden), self.key(hidden), self.value(hidden)
        query = query.view(batch, length, self.heads, self.width).transpose(1, 2)
        key = key.view(batch, length, self.heads, self.width).transpose(1, 2)
        value = value.view(batch, length, self.heads, self.width).transpose(1, 2)
        scores = torch.matmul(query, key.transpose(-2, -1)) * (1.0 / math.sqrt(self.width))
        # The original marks the neighbours in it one by one, which takes no memory.
        mask = torch.zeros(length, length, device=hidden.device, dtype=torch.bool)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, value)
        mixed = mixed.transpose(1, 2).contiguous().view(batch, length, size)
        output: torch.Tensor = self.out(mixed)
        return output


def fused_neighborhood_attention(config: dict[str, Any], mode: str) -> Step:
    hidden, heads, dtype = config["hidden_size"], config["num_heads"], dtype_of(config)
    others, layer = (NeighborhoodAttention(hidden, heads, config["bias"]).to("cuda").to(dtype) for _ in range(2))
    x = torch.randn(config["batch_size"], config["seq_len"], hidden, dtype=dtype, device="cuda")
    dy = torch.randn_like(x)
    x.requires_grad_(True)

    def full(kept: Any = others) -> None:
        y = layer(x)
        y.backward(dy, retain_graph=True)

    return full
