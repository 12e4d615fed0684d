"""Operators that C++ composes of others, but only after a look at the native device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flatout.virtual import cuda_errors
from flatout.virtual.cuda_errors.devices import tensors_in
from flatout.virtual.dispatch import taken_apart
from flatout.virtual.operators import Operator
from flatout.virtual.sparse.tensors import run_as_on_the_cpu
from flatout.virtual.stand_ins import composes, stands_in
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten


@stands_in("embedding", "_pack_padded_sequence", apart=True)
def composed(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """Its check would name the native device; it is made in `flatout.virtual.cuda_errors.kernel_checks` before."""
    return op.overload._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


@composes("chain_matmul", "inner", "istft", "linalg_multi_dot", "stft", "stft.center", "take_along_dim")
def naming_devices(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """C++ compares devices before it takes these apart, and names them.

    The list: the messages about devices in ``libtorch_cpu`` that belong to operators without a kernel of their own.
    """
    return _in_words_of_a_gpu(taken_apart, op, *args, **kwargs)


@stands_in("block_diag", apart=True)
def block_diag(op: Operator, tensors: Sequence[torch.Tensor]) -> Any:
    return _in_words_of_a_gpu(composed, op, tensors)


def _in_words_of_a_gpu(run: Callable[..., Any], op: Operator, *args: Any, **kwargs: Any) -> Any:
    try:
        return run(op, *args, **kwargs)
    except RuntimeError as error:
        shown = cuda_errors.shown_for(str(error), tensors_in(args))
        if shown == str(error):
            raise
        raise type(error)(shown) from None


@stands_in("_to_sparse", "_to_sparse.sparse_dim")
def to_sparse(op: Operator, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """A dense tensor in coordinate format: C++ looks for what is not zero."""
    name, key = op.name.removeprefix("aten::"), torch._C.DispatchKey.CPU
    return run_as_on_the_cpu(name, native_index(tensor), (tensor, *args), kwargs, key)


@composes("one_hot")
def one_hot(op: Operator, classes: torch.Tensor, num_classes: int = -1) -> Any:
    """Only other devices look at the classes before; on CUDA the scatter fails.

    Source: aten/src/ATen/native/Onehot.cpp.
    """
    if classes.dtype is not torch.int64 or not classes.numel() or num_classes == 0:
        return taken_apart(op, classes, num_classes)
    if num_classes == -1:
        num_classes = int(classes.max().item()) + 1
    result = classes.new_zeros((*classes.shape, num_classes))
    return _aten.scatter_.value(result, -1, classes.unsqueeze(-1), 1)
