"""CTC loss: which library runs it, and what it keeps.

Sources: aten/src/ATen/native/cudnn/LossCTC.cpp, native/cuda/LossCTC.cu.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual import values
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

MOST_LABELS = 256


def _numbers(lengths: Any) -> list[int] | None:
    if not isinstance(lengths, torch.Tensor):
        return list(lengths)
    known = values.real(lengths)
    return None if known is None else known.tolist()


@stands_in("_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor")
def use_cudnn(
    op: Operator, log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int
) -> bool:
    """cuDNN takes flat int32 targets on the host, all inputs of full length, and blank 0."""
    if not torch.backends.cudnn.enabled or blank != 0 or targets.dim() != 1:
        return False
    if log_probs.dtype is not torch.float32 or targets.dtype is not torch.int32 or log_probs.dim() != 3:
        return False
    wants_host = not isinstance(input_lengths, torch.Tensor)
    if (native_index(targets) == 0) is not wants_host:
        return False
    inputs, labels = _numbers(input_lengths), _numbers(target_lengths)
    if inputs is None or labels is None:
        return False
    return all(n == log_probs.shape[0] for n in inputs) and all(
        n < MOST_LABELS and n <= length for n, length in zip(labels, inputs)
    )


@stands_in("_use_miopen_ctc_loss", "_use_miopen_ctc_loss.Tensor")
def use_miopen(op: Operator, *args: Any) -> bool:
    return False


@stands_in("_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor")
def cudnn_ctc_loss(op: Operator, log_probs: torch.Tensor, *rest: Any, **options: Any) -> Any:
    machines.current().operations += 1
    index = native_index(log_probs)
    with Temporaries(index) as temporaries:
        temporaries.take(log_probs.numel() * log_probs.element_size())  # the probabilities: softmax of the input
        costs = empty((log_probs.shape[1],), log_probs.dtype, index)
        return costs, empty(log_probs.shape, log_probs.dtype, index)


@stands_in("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def ctc_loss_backward(
    op: Operator,
    grad: torch.Tensor,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    neg_log_likelihood: torch.Tensor,
    log_alpha: torch.Tensor,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    machines.current().operations += 1
    index = native_index(log_probs)
    with Temporaries(index) as temporaries:
        temporaries.take(log_alpha.numel() * log_alpha.element_size())  # log_beta
        return empty(log_probs.shape, log_probs.dtype, index, log_probs.stride())
