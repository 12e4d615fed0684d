"""A small model that learns from a large one: the rows `distill_jsd_loss` and `distill_cosine_loss`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from linear_losses import head
from modes import Step, dtype_of, loss_step
from torch.nn import functional

Divergence = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of the student's and the teacher's logits, both of shape `(BT, V)` in float32."""


def _distill(config: dict[str, Any], divergence: Divergence) -> Step:
    dtype, size, count = dtype_of(config), config["H"], config["BT"]
    student, teacher = head(config, size // 2), head(config, size)
    others = [head(config, size // 2), head(config, size)]
    template = torch.rand(count, size // 2, device="cuda", dtype=dtype)
    other_x, student_x = (template.detach().clone().requires_grad_(True) for _ in range(2))
    teacher_x = torch.rand(count, size, device="cuda", dtype=dtype)
    target = torch.randint(0, config["V"], (count,), device="cuda")
    ignored = config["ignore_index"]

    def logits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        student_outputs = student_x @ student.weight.t()
        with torch.no_grad():
            teacher_outputs = teacher_x @ teacher.weight.t()
        student_logits = student_outputs.view(count, -1).float()
        teacher_logits = teacher_outputs.view(count, -1).float()
        if torch.all(target == ignored):
            raise ValueError("all targets are ignored")
        hard = torch.nn.CrossEntropyLoss(ignore_index=ignored)(student_logits, target)
        return student_logits, teacher_logits, hard

    def forward() -> torch.Tensor:
        student_logits, teacher_logits, hard = logits()
        soft = divergence(student_logits, teacher_logits)
        loss: torch.Tensor = config["weight_hard_loss"] * hard + config["weight_soft_loss"] * soft.mean()
        return loss

    return loss_step(forward, others, template, other_x)


def distill_jsd_loss(config: dict[str, Any], mode: str) -> Step:
    """The reference of December 2024, which takes the logarithm of a softmax."""

    def divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        student = student / 1.0
        teacher = teacher / 1.0
        q, p = functional.softmax(student, dim=-1), functional.softmax(teacher, dim=-1)
        log_middle = torch.log((q + p) / 2)
        of_student = functional.kl_div(log_middle, torch.log(q), reduction="batchmean", log_target=True)
        of_teacher = functional.kl_div(log_middle, torch.log(p), reduction="batchmean", log_target=True)
        return (of_student + of_teacher) / 2

    return _distill(config, divergence)


def distill_cosine_loss(config: dict[str, Any], mode: str) -> Step:
    def divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        student /= 1.0
        teacher /= 1.0
        student_norm = functional.normalize(student, p=2, dim=-1)
        teacher_norm = functional.normalize(teacher, p=2, dim=-1)
        similarity = functional.cosine_similarity(student_norm, teacher_norm, dim=-1)
        loss = 1.0 * (1 - similarity)
        return loss.mean()

    return _distill(config, divergence)
