"""Rotary position embeddings: the rows `rope` and `llama4_rope`."""

from __future__ import annotations

from typing import Any

import torch
from modes import Step, dtype_of


def _lengths(config: dict[str, Any]) -> tuple[int, int]:
    """The sequence's length, and the size of a head."""
    hidden = config.get("H", config.get("hidden_size"))
    return config.get("T", config.get("seq_len")), hidden // config["num_q_heads"]


def _frequencies(size: int) -> torch.Tensor:
    return 1.0 / (10000 ** (torch.arange(0, size, 2, dtype=torch.int64).float().to("cuda") / size))


def _angles(frequencies: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Shape `(1, S, size / 2)`."""
    expanded = frequencies[None, :, None].float().expand(1, -1, 1)
    return (expanded @ positions[:, None, :].float()).transpose(1, 2)


def rope(config: dict[str, Any], mode: str) -> Step:
    length, size = _lengths(config)
    heads, key_heads, dtype = config["num_q_heads"], config["num_kv_heads"], dtype_of(config)
    frequencies = _frequencies(size)

    def made(count: int) -> Any:
        return torch.randn((1, length, count, size), device="cuda", requires_grad=True, dtype=dtype).transpose(1, 2)

    q, k = made(heads), made(key_heads)
    dq, dk = torch.randn_like(q), torch.randn_like(k)
    positions = torch.arange(length, device="cuda", dtype=torch.long).unsqueeze(0)

    @torch.no_grad()
    def tables() -> tuple[Any, Any]:
        angles = _angles(frequencies, positions)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)

    cos, sin = tables()

    def rotated(x: Any) -> Any:
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return torch.cat((-second, first), dim=-1)

    def full(kept: Any = (frequencies, positions)) -> None:
        c, s = cos.unsqueeze(1), sin.unsqueeze(1)
        q_out, k_out = (q * c) + (rotated(q) * s), (k * c) + (rotated(k) * s)
        torch.autograd.grad((q_out, k_out), (q, k), (dq, dk), allow_unused=True, retain_graph=True)

    return full


def llama4_rope(config: dict[str, Any], mode: str) -> Step:
    """Llama 4 turns complex numbers."""
    length, size = _lengths(config)
    heads, key_heads, dtype = config["num_q_heads"], config["num_kv_heads"], dtype_of(config)
    frequencies = _frequencies(size)
    q, k = (
        torch.randn((1, length, count, size), device="cuda", requires_grad=True, dtype=dtype)
        for count in (heads, key_heads)
    )
    dq, dk = torch.randn_like(q), torch.randn_like(k)
    positions = torch.arange(length, device="cuda", dtype=torch.long).unsqueeze(0)

    @torch.no_grad()
    def rotation() -> torch.Tensor:
        angles = _angles(frequencies, positions)
        turns = torch.polar(torch.ones_like(angles), angles)
        return turns * 1.0

    turns = rotation()

    def turned(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q_pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        k_pairs = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
        q_out = torch.view_as_real(q_pairs * turns[:, :, None, :]).flatten(3)
        k_out = torch.view_as_real(k_pairs * turns[:, :, None, :]).flatten(3)
        return q_out.type_as(q), k_out.type_as(k)

    def full(kept: Any = (frequencies, positions)) -> None:
        q_out, k_out = turned(q, k)
        torch.autograd.grad((q_out, k_out), (q, k), (dq, dk), allow_unused=True, retain_graph=True)

    return full
