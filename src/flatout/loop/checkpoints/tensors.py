"""A model's tensors by names that no wrapper changes, whole where they are sharded over ranks."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

_WRAPPERS = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})


def plain_name(name: str) -> str:
    """A parameter's name without what torch.compile, activation checkpointing and FSDP put into it, at any depth."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def is_sharded(tensor: object) -> bool:
    """Whether each rank holds only a part of it (a DTensor, as FSDP2 makes them)."""
    module = sys.modules.get("torch.distributed.tensor")  # what is not imported has made no tensors
    return module is not None and isinstance(tensor, module.DTensor)


def whole(value: Any) -> Any:
    """`value` with each sharded tensor gathered. Every rank calls it, with the same tensors in the same order."""
    if isinstance(value, dict):
        return {key: whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [whole(part) for part in value]
    return value.full_tensor() if is_sharded(value) else value


def like(value: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
    """`value`, which is whole, sharded as `live` is. Every rank calls it."""
    if not is_sharded(live) or value.shape != live.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(live.device), live.device_mesh, live.placements)  # type: ignore[attr-defined]


def model_state(model: nn.Module) -> dict[str, Any]:
    """The state of an unwrapped model under plain names. Every rank calls it where the model is sharded."""
    return {plain_name(name): whole(value) for name, value in model.state_dict().items()}


def load_model(model: nn.Module, saved: dict[str, Any]) -> None:
    """The reverse of `model_state`, for a state that `model_faults` finds nothing wrong with."""
    given = _as_in(model, saved)
    state = {}
    for name, live in model.state_dict().items():
        value = given[plain_name(name)]
        state[name] = like(value, live) if isinstance(live, torch.Tensor) else value
    model.load_state_dict(state)


def model_faults(model: nn.Module, saved: dict[str, Any]) -> list[str]:
    """Why this state does not fit this model, in words; nothing where it does."""
    live, given = {plain_name(name): value for name, value in model.state_dict().items()}, _as_in(model, saved)
    faults = []
    if missing := [name for name in live if name not in given]:
        faults.append(f"the checkpoint lacks {few(missing)}")
    if unexpected := [name for name in given if name not in live]:
        faults.append(f"the model lacks {few(unexpected)}")
    differing = [
        f"{name} ({_shape(given[name])} in the checkpoint, {_shape(value)} in the model)"
        for name, value in live.items()
        if name in given and _shape(given[name]) not in ("any shape", _shape(value)) and _shape(value) != "any shape"
    ]
    if differing:
        faults.append(f"of another shape or type are {few(differing)}")
    return faults


def _as_in(model: nn.Module, saved: dict[str, Any]) -> dict[str, Any]:
    """`saved` by plain names, also where DDP had put `module.` before every one of them and the model has none such."""
    given = {plain_name(name): value for name, value in saved.items()}
    if given and all(name.startswith("module.") for name in given) and not hasattr(model, "module"):
        return {name.removeprefix("module."): value for name, value in given.items()}
    return given


def _shape(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return "no tensor"
    if torch.nn.parameter.is_lazy(value):
        return "any shape"  # it takes its shape from the first batch
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def few(things: list[str], most: int = 3) -> str:
    """The first few of a list, and how many more there are."""
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return ", ".join(things[:most]) + more
