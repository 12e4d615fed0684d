"""Models on many processes: gradients averaged by DDP, or states shared out by FSDP2.

DataParallel, one process that drives many GPUs from threads, is not offered: it copies the model at every step and
the interpreter's lock makes its GPUs wait for each other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flatout.errors import TrainingError, UsageError
from flatout.loop.processes import sharded
from flatout.loop.processes.ranks import Ranks, join

__all__ = ["Ranks", "check_exchanged", "join", "reset", "settle_batchnorm", "unwrap", "without_exchange", "wrap"]

NAMED = 5  # parameters that a message names before it counts the rest


class Replicated(DistributedDataParallel):
    """A model whose gradients are averaged over the processes.

    The model's own attributes and methods are in reach, so that a script is the same for one process and for many. A
    method called inside a step goes through `forward`, without which gradients would not be exchanged.
    """

    def __init__(self, model: nn.Module, inside_step: Callable[[], bool], **options: Any) -> None:
        super().__init__(model, **options)
        self._inside_step = inside_step
        self.was_called = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            self.was_called = True
        return super().forward(*args, **kwargs)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("module")
            if model is None:
                raise
        found = getattr(model, name)
        if inspect.ismethod(found) and found.__self__ is model and self.__dict__["_inside_step"]():
            return functools.partial(self._through_forward, found)
        return found

    def _through_forward(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        model = self.module

        def forward(*args: Any, **kwargs: Any) -> Any:
            del model.forward  # the method may call it
            return method(*args, **kwargs)

        model.forward = forward
        try:
            return self(*args, **kwargs)
        finally:
            model.__dict__.pop("forward", None)


def wrap(
    model: nn.Module,
    ranks: Ranks,
    device: torch.device,
    strategy: str,
    *,
    find_unused: bool = False,
    inside_step: Callable[[], bool] = lambda: True,
) -> nn.Module:
    """`model` so that its gradients are averaged over the ranks, which all start from the first one's weights.

    `strategy`: ddp or fsdp. `find_unused`: parameters may be left out of a step's loss (DDP then searches the graph
    for them, which costs time). DDP's buckets hold the gradients themselves, which saves one copy of them.
    """
    if ranks.count == 1:
        return model
    if isinstance(model, DistributedDataParallel) or sharded.is_sharded(model):
        raise UsageError(
            "loop.prepare(model): the model is wrapped for many processes already; pass the plain one "
            "(loop.unwrap(model) gives it), prepare wraps it"
        )
    _same_everywhere(model, ranks)
    if not any(p.requires_grad for p in model.parameters()):
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        return model
    if strategy == "fsdp":
        return sharded.shard(model, device)
    return Replicated(
        model,
        inside_step,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
        find_unused_parameters=find_unused,
    )


def settle_batchnorm(model: nn.Module, device: torch.device, say: Callable[[str], None], *, sync: bool) -> nn.Module:
    """BatchNorm over all processes' batches where asked for; where not, say what it does on many processes."""
    kind = nn.modules.batchnorm._BatchNorm
    if not any(isinstance(m, kind) and not isinstance(m, nn.SyncBatchNorm) for m in model.modules()):
        return model
    if not sync:
        say(
            "BatchNorm normalises each process's batch by itself, and the running statistics are the first process's; "
            "loop.prepare(..., sync_batchnorm=True) takes them over all (on GPUs)"
        )
        return model
    if device.type != "cuda":
        raise UsageError(
            f"loop.prepare(..., sync_batchnorm=True): SyncBatchNorm works on GPUs only, not on {device.type}; "
            "leave it out, or take GroupNorm or LayerNorm"
        )
    return nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-any-return]


def _same_everywhere(model: nn.Module, ranks: Ranks) -> None:
    """Refuse models that differ in shape from rank to rank, where an exchange would hang or mix things up."""
    here = [(name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in model.named_parameters()]
    for rank, there in enumerate(ranks.gather(here)):
        if there != here:
            mine, other = next(
                ((a, b) for a, b in zip(here, there) if a != b), (f"{len(here)} parameters", f"{len(there)} parameters")
            )
            raise UsageError(
                f"loop.prepare(model): the model is not the same everywhere: {mine} on rank {ranks.rank}, {other} "
                f"on rank {rank}; build it from the same arguments everywhere"
            )


def unwrap(model: nn.Module) -> nn.Module:
    """The model as it was given to `wrap`. FSDP2 changes it in place: its parameters are the sharded ones."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def without_exchange(models: Iterable[nn.Module]) -> AbstractContextManager[object]:
    """Backward passes inside this keep their gradients on their rank. (Sharded models exchange theirs all the same.)"""
    replicated = [model for model in models if isinstance(model, DistributedDataParallel)]
    if not replicated:
        return nullcontext()
    if len(replicated) == 1:
        return replicated[0].no_sync()
    contexts = ExitStack()
    for model in replicated:
        contexts.enter_context(model.no_sync())
    return contexts


def check_exchanged(models: Iterable[nn.Module], stepped: Callable[[], Iterable[nn.Parameter]]) -> None:
    """After the backward pass that ends a window: whether the gradients of all ranks have been averaged.

    `stepped`: the parameters that are about to be stepped. DDP itself tells only at the next forward pass.
    """
    for model in models:
        if not isinstance(model, Replicated):
            continue
        called, model.was_called = model.was_called, False
        own = set() if called else {id(p) for p in model.module.parameters() if p.grad is not None}
        if own and any(id(p) in own for p in stepped()):
            raise TrainingError(
                "loop.step(): a model's gradients were not exchanged between the processes, since its forward pass "
                "went past the prepared model; call what loop.prepare gave back, not loop.unwrap(model)"
            )
        try:
            model._check_reducer_finalized()  # type: ignore[no-untyped-call]
        except RuntimeError:
            unused = [n for n, p in model.module.named_parameters() if p.requires_grad and p.grad is None]
            more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
            raise UsageError(
                "loop.step(): no gradient for "
                + (", ".join(unused[:NAMED]) + more or "some parameters")
                + "; with many processes "
                "each parameter takes part in the loss of the step that ends a window: freeze those that do "
                "not (requires_grad_(False)), or call loop.prepare(..., find_unused=True)"
            ) from None


def reset(models: Iterable[nn.Module]) -> None:
    """After an exception in a step: FSDP2's bookkeeping of the pass that was cut short is put back."""
    for model in models:
        if sharded.is_sharded(model) and hasattr(model, "reset_iter_state"):
            cast(Any, model).reset_iter_state()
