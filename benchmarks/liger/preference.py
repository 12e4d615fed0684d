"""Losses that learn from preferred and rejected answers: the rows `fused_linear_{cpo,orpo,simpo}_loss` and `kto_loss`.

What lives until when follows TRL's trainers, after which the project's reference losses are modelled: the logits in
the layer's own type live until the log probabilities are there, those in float32 until the loss is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from linear_losses import head
from modes import Step, dtype_of, loss_step
from torch.nn import functional

Objective: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From mean log probabilities of the preferred and of the rejected answers, each of shape `(B / 2,)`."""

BETA = 0.1
IGNORED = -100


def token_log_probabilities(logits: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    """Mean over each text's tokens, shape `(B,)`, of the log probability of its label; `logits` `(B, T, V)`."""
    counted = labels != ignored
    labels = torch.where(labels == ignored, 0, labels)
    of_tokens = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (of_tokens * counted).sum(-1) / counted.sum(-1)


def _paired(config: dict[str, Any], objective: Objective) -> Step:
    """The first half of the batch is preferred; its cross entropy is added to the objective."""
    layer, others = head(config), head(config)
    shape = (config["B"], config["T"])
    x = torch.randn(*shape, config["H"], requires_grad=True, dtype=dtype_of(config), device="cuda")
    target = torch.randint(config["V"], shape, device="cuda")
    half = config["B"] // 2

    def halves() -> tuple[torch.Tensor, ...]:
        outputs = x @ layer.weight.t()
        logits = outputs.float()
        preferred = logits[:half]
        cross_entropy = torch.nn.CrossEntropyLoss(ignore_index=IGNORED)(
            preferred.view(-1, config["V"]), target[:half].view(-1)
        )
        means = token_log_probabilities(logits, target, IGNORED)
        return means[:half], means[half:], logits[:half], logits[half:], cross_entropy

    def forward() -> torch.Tensor:
        preferred, rejected, *logits, cross_entropy = halves()
        losses = objective(preferred, rejected)
        loss: torch.Tensor = cross_entropy * 1.0 - losses.mean()
        del logits
        return loss

    return loss_step(forward, others)


def fused_linear_orpo_loss(config: dict[str, Any], mode: str) -> Step:
    def objective(preferred: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
        odds = (preferred - rejected) - (torch.log1p(-torch.exp(preferred)) - torch.log1p(-torch.exp(rejected)))
        return BETA * functional.logsigmoid(odds)

    return _paired(config, objective) if config["T"] == 1024 else _early_orpo(config, objective)


def _early_orpo(config: dict[str, Any], objective: Objective) -> Step:
    """The reference of the first measurements, an hour older: no float32, and the mean over the vocabulary."""
    layer, others = head(config), head(config)
    shape = (config["B"], config["T"])
    x = torch.randn(*shape, config["H"], requires_grad=True, dtype=dtype_of(config), device="cuda")
    target = torch.randint(config["V"], shape, device="cuda")
    half = config["B"] // 2

    def forward() -> torch.Tensor:
        logits = layer(x)
        cross_entropy = torch.nn.CrossEntropyLoss()(logits[:half].view(-1, config["V"]), target[:half].view(-1))
        means = functional.log_softmax(logits, dim=-1).mean(dim=-1)
        preferred, rejected = means[:half], means[half:]
        losses = objective(preferred, rejected)
        loss: torch.Tensor = cross_entropy - losses.mean()
        return loss

    return loss_step(forward, others)


def fused_linear_cpo_loss(config: dict[str, Any], mode: str) -> Step:
    def objective(preferred: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
        difference = preferred - rejected
        return functional.logsigmoid(BETA * difference) * 1.0 + functional.logsigmoid(-BETA * difference) * 0.0

    return _paired(config, objective)


def fused_linear_simpo_loss(config: dict[str, Any], mode: str) -> Step:
    def objective(preferred: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
        difference = preferred - rejected - 0.5 / BETA
        return functional.logsigmoid(BETA * difference) * 1.0 + functional.logsigmoid(-BETA * difference) * 0.0

    return _paired(config, objective)


def kto_loss(config: dict[str, Any], mode: str) -> Step:
    """Not in pairs: each text is preferred or not, and a reference model is asked as well."""
    dtype, shape, ignored = dtype_of(config), (config["B"], config["T"]), config["ignore_index"]
    bias = config["bias"]
    layer, reference, *others = (head(config, bias=bias) for _ in range(4))
    x = torch.randn(*shape, config["H"], dtype=dtype, device="cuda")
    target = torch.randint(config["V"], shape, device="cuda")
    preferred = torch.randint(2, shape[:1], dtype=torch.bool, device="cuda")
    kl = torch.randn(1, device="cuda", dtype=dtype)
    padded = int(torch.randint(1, target.numel() // 2, (1,)))
    target.view(-1)[torch.randperm(target.numel())[:padded]] = ignored
    reference_x = torch.randn(*shape, config["H"], dtype=dtype, device="cuda")

    def split(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return values[preferred], values[~preferred]

    def policy() -> tuple[torch.Tensor, ...]:
        outputs = x @ layer.weight.t()
        outputs = outputs + layer.bias
        logits = outputs.float()
        nothing = torch.tensor(0.0, device="cuda")
        means = token_log_probabilities(logits, target, ignored)
        return *split(means), *split(logits), nothing

    @torch.no_grad()
    def of_reference() -> tuple[torch.Tensor, torch.Tensor]:
        logits = reference_x @ reference.weight.t()
        logits = logits + reference.bias
        return split(token_log_probabilities(logits, target, ignored))

    def forward() -> torch.Tensor:
        chosen, rejected, chosen_logits, rejected_logits, nothing = policy()
        reference_chosen, reference_rejected = of_reference()
        chosen_ratios = chosen - reference_chosen
        chosen_losses = 1 - torch.sigmoid(BETA * (chosen_ratios - kl))
        rejected_ratios = rejected - reference_rejected
        rejected_losses = 1 - torch.sigmoid(BETA * (kl - rejected_ratios))
        losses = torch.cat((chosen_losses, rejected_losses), 0)
        loss: torch.Tensor = nothing * 1.0 + losses.mean()
        for logged in (chosen, rejected, chosen_logits, rejected_logits):
            logged.detach().sum()
        return loss

    return loss_step(forward, others)
