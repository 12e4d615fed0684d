"""What an argument or attribute is when only its name is known: the names that everybody gives these things."""

from __future__ import annotations

import ast

from flatout.check.fact import UNKNOWN, Fact
from flatout.check.words import words

_NAMES = {
    "Module": words(
        "model net network criterion loss_fn loss_func loss_function generator discriminator netG netD encoder decoder"
    ),
    "Optimizer": words("optimizer optim opt optimizer_g optimizer_d optimizerG optimizerD opt_g opt_d"),
    "Scheduler": ["scheduler", "lr_scheduler", "sched", "lr_sched"],
    "GradScaler": ["scaler", "grad_scaler"],
    "DataLoader": words(
        "loader dataloader data_loader train_loader val_loader test_loader valid_loader eval_loader "
        "train_dataloader val_dataloader test_dataloader eval_dataloader trainloader testloader valloader "
        "train_dl val_dl test_dl"
    ),
    "device": ["device"],
}
_HINTS = {
    name: Fact(kind=kind, device="cuda" if kind == "device" else None)
    for kind, names in _NAMES.items()
    for name in names
}


def sounds_like(kind: str, node: ast.expr) -> bool:
    """Whether a variable or attribute has a name that everybody gives to a thing of that kind: `model`, `self.net`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return hint(name).kind == kind


# What is called so is a model wherever it comes from.
MODELS = frozenset({"model", "net", "network"})


def hint(name: str) -> Fact:
    """What something called `name` surely is by custom; a device that is passed in is the GPU where there is one."""
    return _HINTS.get(name, UNKNOWN)
