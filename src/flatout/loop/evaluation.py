"""Evaluation: the models as they are, without gradients, each sample counted once over all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flatout.errors import UsageError
from flatout.loop.cursor import Cursor
from flatout.loop.numerics.precision import Precision
from flatout.loop.processes import distributed, sharded
from flatout.loop.processes.ranks import Ranks


@contextmanager
def evaluating(
    models: Iterable[nn.Module], precision: Precision, cursor: Cursor, ranks: Ranks, *, even: bool = False
) -> Iterator[None]:
    """See `Loop.evaluation`. All modes, flags and places are put back, also after an exception."""
    models = list(models)
    before = cursor.batch, cursor.of_pass, cursor.evaluating, cursor.even
    modes = [(module, module.training) for model in models for module in model.modules()]
    share_buffers(models, ranks)
    replicated = [model for model in models if isinstance(model, DistributedDataParallel)]
    flags = [(model, model.require_forward_param_sync) for model in replicated]
    cursor.evaluating, cursor.even = True, even or any(sharded.is_sharded(model) for model in models)
    try:
        for model in models:
            model.eval()
        for model in replicated:  # ranks may have different numbers of batches: the forward pass must not exchange
            model.require_forward_param_sync = False
        with _no_gradients(models), precision.autocast():
            if precision.dtype is not None:
                torch.set_autocast_cache_enabled(False)  # or weights that are exchanged in here would keep old casts
            yield
    except BaseException:
        distributed.reset(models)
        raise
    finally:
        for module, training in modes:  # one by one: a BatchNorm that was frozen stays so
            module.training = training
        for model in models:
            if sharded.is_sharded(model):
                sharded.reshard(model)
        for model, flag in flags:
            model.require_forward_param_sync = flag
        cursor.batch, cursor.of_pass, cursor.evaluating, cursor.even = before


def share_buffers(models: Iterable[nn.Module], ranks: Ranks) -> None:
    """Everyone's buffers (BatchNorm's running statistics) become the first rank's, so that all evaluate one model."""
    if ranks.count == 1:
        return
    with torch.no_grad(), ranks.meeting("evaluation"):
        for model in models:
            for buffer in model.buffers():
                dist.broadcast(buffer, src=0)


def _no_gradients(models: Iterable[nn.Module]) -> Any:
    """Inference mode, where its tensors cannot get into what outlives it: compiled graphs and gathered weights."""
    kept = any(
        sharded.is_sharded(model) or getattr(m, "_compiled_call_impl", None) is not None or hasattr(m, "_orig_mod")
        for model in models
        for m in model.modules()
    )
    return torch.no_grad() if kept else torch.inference_mode()


def gather(values: Any, ranks: Ranks, cursor: Cursor) -> Any:
    """See `Loop.gather`."""
    batch = cursor.batch
    if ranks.count > 1 and batch is not None and cursor.evaluating and not cursor.even:
        raise UsageError(
            "loop.gather(...): inside an evaluation whose processes may have different numbers of batches, so that not "
            "all of them would come here; evaluate under loop.evaluation(even=True), or gather once after the loop"
        )
    counts = batch is None or batch.samples is None or batch.samples > 0
    leaves: list[torch.Tensor] = []
    put_back = _take_apart(values, leaves)
    rows = [leaf.detach() if counts else leaf.detach()[:0] for leaf in leaves]
    return put_back(iter(_exchange(rows, ranks) if ranks.count > 1 else rows))


def _take_apart(values: Any, leaves: list[torch.Tensor]) -> Callable[[Iterator[torch.Tensor]], Any]:
    """Collect the tensors of a nested structure; what puts others in their places."""
    if isinstance(values, torch.Tensor):
        leaves.append(values if values.dim() else values[None])
        return next
    if isinstance(values, Mapping):
        parts = {key: _take_apart(part, leaves) for key, part in values.items()}
        return lambda new: {key: part(new) for key, part in parts.items()}
    if isinstance(values, list | tuple):
        items = [_take_apart(part, leaves) for part in values]
        if hasattr(values, "_fields"):
            return lambda new: type(values)(*[item(new) for item in items])
        return lambda new: type(values)([item(new) for item in items])
    raise UsageError(
        f"loop.gather(...): a {type(values).__name__} has no rows; it takes tensors and lists, tuples, dicts of them"
    )


def _exchange(rows: list[torch.Tensor], ranks: Ranks) -> list[torch.Tensor]:
    """The rows of all ranks, in order of rank. Ranks may have different numbers of them, also none."""
    kinds = [(tuple(leaf.shape[1:]), str(leaf.dtype)) for leaf in rows]
    told = ranks.gather((kinds, [len(leaf) for leaf in rows]))
    for rank, (theirs, _) in enumerate(told):
        if theirs != kinds:
            raise UsageError(
                f"loop.gather(...): the rows are not alike: {kinds} on rank {ranks.rank}, {theirs} on rank {rank}"
            )
    gathered = []
    for i, leaf in enumerate(rows):
        lengths = [lengths[i] for _, lengths in told]
        longest = max(lengths)
        padded = leaf.new_zeros((longest, *leaf.shape[1:]))
        padded[: len(leaf)] = leaf
        parts = [torch.empty_like(padded) for _ in lengths]
        if longest:
            with ranks.meeting("gather"):
                dist.all_gather(parts, padded)
        gathered.append(torch.cat([part[:length] for part, length in zip(parts, lengths)]))
    return gathered
