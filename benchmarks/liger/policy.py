"""Learning from rewards: the rows `fused_linear_grpo_loss_token` and `fused_linear_grpo_loss_sequence`."""

from __future__ import annotations

from typing import Any

import torch
from linear_losses import head
from modes import Step, dtype_of, loss_step
from torch.nn import functional

BETA, EPSILON = 0.1, 0.2


def _grpo(config: dict[str, Any]) -> Step:
    """The ratio of importances is clipped for each token or for each sequence, as the row says."""
    dtype, shape = dtype_of(config), (config["B"], config["T"])
    layer, reference, *others = (head(config) for _ in range(4))
    x = torch.randn(*shape, config["H"], requires_grad=True, dtype=dtype, device="cuda")
    chosen = torch.randint(0, config["V"], shape, device="cuda")
    mask = torch.ones(shape, device="cuda")
    advantages = torch.randn(config["B"], dtype=dtype, device="cuda")
    reference_x = torch.randn(*shape, config["H"], dtype=dtype, device="cuda")
    whole = config["importance_sampling_level"] == "sequence"

    def mean(value: torch.Tensor) -> torch.Tensor:
        return (value * mask).sum() / torch.clamp(mask.sum(), min=1.0)

    def loss_and_metrics() -> tuple[torch.Tensor, list[torch.Tensor]]:
        logits = x @ layer.weight.t()
        log_probabilities = functional.log_softmax(logits.float(), dim=-1)
        of_tokens = log_probabilities.gather(dim=-1, index=chosen.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            reference_logits = reference_x @ reference.weight.t()
            reference_log_probabilities = functional.log_softmax(reference_logits.float(), dim=-1)
            of_reference = reference_log_probabilities.gather(dim=-1, index=chosen.unsqueeze(-1)).squeeze(-1)
        old = of_tokens.detach()
        log_ratio = of_tokens - old
        weights = log_ratio
        if whole:
            weights = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
            weights = weights.unsqueeze(-1)
        ratio = torch.exp(weights)
        clipped = torch.clamp(ratio, 1 - EPSILON, 1 + EPSILON)
        first, second = ratio * advantages.unsqueeze(1), clipped * advantages.unsqueeze(1)
        losses = -torch.min(first, second)
        of_reference = of_reference.float()
        divergence = torch.exp(of_reference - of_tokens) - (of_reference - of_tokens) - 1.0
        losses = losses + BETA * divergence
        loss = mean(losses)
        low, high = ratio < 1 - EPSILON, ratio > 1 + EPSILON
        sign = advantages.unsqueeze(1)
        return loss, [mean(divergence), mean((low & (sign < 0)) | (high & (sign > 0)))]

    return loss_step(lambda: loss_and_metrics()[0], others)


def fused_linear_grpo_loss(config: dict[str, Any], mode: str) -> Step:
    return _grpo(config)
