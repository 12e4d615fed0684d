"""A language model's last layer and its loss: the rows `fused_linear_cross_entropy` and `fused_linear_jsd`."""

from __future__ import annotations

from typing import Any

import torch
from losses import jensen_shannon
from modes import Step, dtype_of, loss_step


def head(config: dict[str, Any], features: int | None = None, bias: bool = False) -> torch.nn.Linear:
    """The last layer of shape `(V, features)`, `features` being H where not said, made on the host and moved."""
    size = config["H"] if features is None else features
    return torch.nn.Linear(size, config["V"], bias=bias, dtype=dtype_of(config)).to("cuda")


def fused_linear_cross_entropy(config: dict[str, Any], mode: str) -> Step:
    layer, others = head(config), head(config)
    loss = torch.nn.CrossEntropyLoss()
    x = torch.randn(config["BT"], config["H"], requires_grad=True, dtype=dtype_of(config), device="cuda")
    target = torch.randint(config["V"], (config["BT"], 1), device="cuda").squeeze(1)

    def forward() -> Any:
        logits = layer(x)
        return loss(logits, target)

    return loss_step(forward, others)


def fused_linear_jsd(config: dict[str, Any], mode: str) -> Step:
    """Both providers share their weights: four layers are made, two new weights take the place of all four."""
    dtype, size = dtype_of(config), (config["V"], config["H"])
    student, teacher, *others = (head(config) for _ in range(4))
    student.weight.data = others[0].weight.data = torch.rand(size, device="cuda", dtype=dtype)
    teacher.weight.data = others[1].weight.data = torch.rand(size, device="cuda", dtype=dtype)
    student_x = torch.rand(config["BT"], config["H"], requires_grad=True, dtype=dtype, device="cuda")
    teacher_x = torch.rand(config["BT"], config["H"], dtype=dtype, device="cuda")

    def forward() -> Any:
        student_logits = student(student_x)
        teacher_logits = teacher(teacher_x)
        log_q = torch.log_softmax(student_logits / 1.0, dim=-1)
        log_p = torch.log_softmax(teacher_logits / 1.0, dim=-1)
        return jensen_shannon(log_q, log_p).to(dtype)

    return loss_step(forward, others)
