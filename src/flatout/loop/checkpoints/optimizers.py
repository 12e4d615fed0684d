"""The state of an optimizer: to the last bit, by the positions of its parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from flatout.loop.checkpoints.plain import plain
from flatout.loop.checkpoints.tensors import few, like, whole


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """The state, and what has to be the same for it to fit. Every rank calls it where parameters are sharded."""
    return {
        "kind": type(optimizer).__name__,
        "shapes": [[list(parameter.shape) for parameter in group["params"]] for group in optimizer.param_groups],
        "state": whole(optimizer.state_dict()),
    }


def optimizer_faults(optimizer: Optimizer, saved: dict[str, Any]) -> list[str]:
    """Why this state does not fit this optimizer, in words; nothing where it does."""
    if saved["kind"] != type(optimizer).__name__:
        return [f"{saved['kind']} in the checkpoint, {type(optimizer).__name__} here"]
    then, groups = saved["shapes"], optimizer.param_groups
    if len(then) != len(groups):
        return [f"{len(then)} parameter groups in the checkpoint, {len(groups)} here"]
    for g, (shapes, group) in enumerate(zip(then, groups)):
        now = [list(parameter.shape) for parameter in group["params"]]
        if len(shapes) != len(now):
            return [f"{len(shapes)} parameters in group {g} in the checkpoint, {len(now)} here"]
        other = [f"{g}.{i} ({a} in the checkpoint, {b} here)" for i, (a, b) in enumerate(zip(shapes, now)) if a != b]
        if other:
            return [f"of another shape or in another order are the parameters {few(other)}"]
    return []


def load_optimizer(optimizer: Optimizer, saved: dict[str, Any], *, stepped: bool) -> None:
    """As `load_state_dict`, but to the last bit: that casts to the parameter's type, and keeps what it is given."""
    live = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        index: {name: _entry(value, live[index]) for name, value in entries.items()}
        for index, entries in saved["state"].items()
    }
    optimizer.load_state_dict({"state": state, "param_groups": plain(saved["param_groups"], "groups", copy=True)})
    if stepped:
        optimizer._opt_called = True  # type: ignore[attr-defined]  # its schedulers ask, and would warn of a wrong order
    for index, entries in state.items():
        here = optimizer.state[live[index]]
        for name, value in entries.items():
            if isinstance(value, torch.Tensor) and (here[name].dtype != value.dtype or here[name] is value):
                here[name] = value.to(here[name].device, copy=True)


def _entry(value: Any, parameter: torch.Tensor) -> Any:
    return like(value, parameter) if isinstance(value, torch.Tensor) else plain(value, "optimizer", copy=True)
