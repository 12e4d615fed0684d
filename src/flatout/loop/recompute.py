"""Activation checkpointing: blocks whose activations are not kept, but computed again in the backward pass.

Exact: dropout draws the same numbers again, and statistics of BatchNorm take each batch in once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from flatout.errors import UsageError


def checkpoint_blocks(model: nn.Module, asked: bool | Sequence[type[nn.Module]]) -> None:
    """Recompute the blocks of `model`: those of the classes asked for, or for True the repeated ones."""
    blocks = list(repeated_blocks(model) if isinstance(asked, bool) else _of_classes(model, tuple(asked)))
    if not blocks:
        raise UsageError(
            f"loop.prepare(checkpoint_activations={asked!r}): {type(model).__name__} holds no "
            + ("repeated blocks; name their class: checkpoint_activations=(Block,)" if asked is True else "such module")
        )
    for block in blocks:
        _recompute(block)


def repeated_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules with parts of their own that stand in a list or sequence beside others of their class."""
    children = list(module.children())
    if isinstance(module, nn.ModuleList | nn.Sequential):
        kinds = [type(child) for child in children]
        repeated = [c for c in children if kinds.count(type(c)) > 1 and any(True for _ in c.children())]
        yield from repeated
        children = [c for c in children if not any(c is block for block in repeated)]
    for child in children:
        yield from repeated_blocks(child)


def _of_classes(module: nn.Module, classes: tuple[type[nn.Module], ...]) -> Iterator[nn.Module]:
    if isinstance(module, classes):
        yield module
        return
    for child in module.children():
        yield from _of_classes(child, classes)


def _recompute(block: nn.Module) -> None:
    for part in block.modules():
        if type(part).__name__ in ("_SpectralNorm", "SpectralNorm"):
            raise UsageError(
                f"loop.prepare(checkpoint_activations=...): a {type(block).__name__} uses spectral norm, which takes a "
                "step of its own in every forward pass; run a second time it would compute something else"
            )
    # On the instance, so that names in the state dict stay as they are.
    block.forward = partial(_forward, block, block.forward)


def _forward(block: nn.Module, forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    norms = [m for m in block.modules() if isinstance(m, _NormBase) and m.training and m.track_running_stats]
    if not norms or torch.compiler.is_compiling():  # the compiler does not repeat changes to buffers
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    contexts = partial(_contexts, norms)
    return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _contexts(norms: list[_NormBase]) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    return nullcontext(), StatisticsKept(norms)


class StatisticsKept(AbstractContextManager[None]):
    """Running statistics change nothing of themselves inside this: they are stood in for by copies."""

    def __init__(self, norms: list[_NormBase]) -> None:
        self._norms = norms
        self._own: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        for norm in self._norms:
            self._own.append(dict(norm._buffers))
            for name, buffer in norm._buffers.items():
                norm._buffers[name] = None if buffer is None else buffer.clone()

    def __exit__(self, *error: Any) -> None:
        for norm, own in zip(self._norms, self._own):
            norm._buffers.update(own)
        self._own.clear()
