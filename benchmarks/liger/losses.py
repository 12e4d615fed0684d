"""Losses over a vocabulary: the rows `cross_entropy`, `kl_div`, `jsd` and `tvd`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from modes import Step


def cross_entropy(config: dict[str, Any], mode: str) -> Step:
    loss = torch.nn.CrossEntropyLoss()
    samples = config["B"] * config["T"]
    logits = torch.randn(samples, config["V"], requires_grad=True, device="cuda")
    target = torch.randint(config["V"], (samples, 1), device="cuda").squeeze(1)
    return lambda: loss(logits, target).backward()


def _between(config: dict[str, Any], loss: Callable[..., Any], *, log_input: bool, log_target: bool) -> Step:
    shape = (config["B"] * config["T"], config["V"])

    def distribution(logits: Any, logarithm: bool) -> Any:
        return logits.log_softmax(dim=-1) if logarithm else logits.softmax(dim=-1)

    first = distribution(torch.randn(*shape, requires_grad=True, device="cuda"), log_input)
    second = distribution(torch.randn(*shape, device="cuda"), log_target)
    return lambda: loss(first, second).backward(retain_graph=True)


def kl_div(config: dict[str, Any], mode: str) -> Step:
    return _between(config, torch.nn.KLDivLoss(reduction="batchmean"), log_input=True, log_target=False)


def jensen_shannon(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """The divergence between two distributions over the last dimension, given as logarithms; in float32."""
    divergence = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
    log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
    log_p, log_q = log_p.view(-1, log_p.size(-1)), log_q.view(-1, log_q.size(-1))
    middle = torch.lerp(torch.exp(log_p), torch.exp(log_q), 0.5)
    return 0.5 * divergence(torch.log(middle), log_p) + 0.5 * divergence(torch.log(middle), log_q)


def jsd(config: dict[str, Any], mode: str) -> Step:
    return _between(config, jensen_shannon, log_input=True, log_target=True)


def tvd(config: dict[str, Any], mode: str) -> Step:
    def loss(p: Any, q: Any) -> Any:
        distance = torch.abs(p - q) / 2.0
        return torch.sum(distance) / p.size(0)

    return _between(config, loss, log_input=False, log_target=False)
