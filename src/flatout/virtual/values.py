"""The values lane: what is really inside virtual tensors, where it can be known.

Small integer and boolean tensors carry their true content, and so do small float tensors until something unknown enters
them. The content lives in a real CPU storage beside the virtual one, so views and in-place operations see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from flatout.virtual import hints, randomness
from flatout.virtual.tensor import Allocation, allocation_of, native_index

if TYPE_CHECKING:
    from flatout.virtual.operators import Operator

FLOAT_LIMIT_BYTES = 16 << 10
INTEGER_LIMIT_BYTES = 8 << 20
BLANK_LIMIT_BYTES = 64 << 10
_set: Any = torch.ops.aten.set_.source_Storage_storage_offset
_Tensor = torch.Tensor


def limit_bytes(dtype: torch.dtype) -> int:
    """Up to what size the content of a tensor of this dtype is carried along."""
    return FLOAT_LIMIT_BYTES if dtype.is_floating_point or dtype.is_complex else INTEGER_LIMIT_BYTES


def real(tensor: torch.Tensor) -> torch.Tensor | None:
    """A real CPU tensor over the known content of a virtual one, or None. Writing to it changes the content."""
    if not native_index(tensor):
        return tensor
    values = allocation_of(tensor).values
    if values is None:
        return None
    seen = torch.empty(0, dtype=tensor.dtype)
    _set(seen, values, tensor.storage_offset(), tensor.shape, tensor.stride())
    return seen


def know(tensor: torch.Tensor, content: torch.Tensor) -> None:
    """Note the true content of a virtual tensor that owns its whole storage. `content` is copied."""
    allocation = allocation_of(tensor)
    storage = torch.UntypedStorage(allocation.nbytes)
    seen = torch.empty(0, dtype=tensor.dtype)
    _set(seen, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    seen.copy_(content)
    allocation.values = storage


def forget(tensor: torch.Tensor) -> None:
    """Something unknown was written into this tensor."""
    allocation_of(tensor).values = None


def blank(allocation: Allocation, dtype: torch.dtype) -> None:
    """Fresh memory of a small tensor counts as zeros (what is in it on a real GPU is anybody's guess)."""
    if allocation.nbytes <= min(limit_bytes(dtype), BLANK_LIMIT_BYTES):
        allocation.values = torch.zeros(allocation.nbytes, dtype=torch.uint8).untyped_storage()


def resize(allocation: Allocation, nbytes: int) -> None:
    """The storage was given another size: what is known of its start stays known."""
    allocation.nbytes = nbytes
    if allocation.values is None:
        return
    if nbytes > INTEGER_LIMIT_BYTES:
        allocation.values = None
        return
    grown = torch.zeros(nbytes, dtype=torch.uint8)
    kept = torch.empty(0, dtype=torch.uint8)
    _set(kept, allocation.values, 0, (allocation.values.nbytes(),), (1,))
    count = min(nbytes, kept.numel())
    grown[:count] = kept[:count]
    allocation.values = grown.untyped_storage()


def _real_argument(value: Any) -> Any:
    if isinstance(value, _Tensor):
        return real(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_real_argument(item) for item in value])
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.Generator):
        return None  # see `randomness`
    return value


# Operations after which a tensor's old content does not matter.
_OVERWRITING = frozenset(
    {
        "aten::fill_.Scalar", "aten::fill_.Tensor", "aten::zero_", "aten::arange.start_out", "aten::random_",
        "aten::randperm.generator_out", "aten::random_.to", "aten::random_.from", "aten::normal_", "aten::uniform_",
        "aten::bernoulli_.float",
        "aten::exponential_", "aten::eye.m_out", "aten::linspace.out", "aten::logspace.out", "aten::eye.out",
    }
)  # fmt: skip


def follow(
    op: Operator,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Sequence[Any],
    tensors: Sequence[torch.Tensor],
) -> None:
    """Carry known content through an operation whose outputs already exist."""
    known = True
    size = 0
    exact = True
    for tensor in tensors:
        allocation = allocation_of(tensor)
        if allocation.values is None and not (op.name in _OVERWRITING and _renew(tensor, allocation)):
            known = False
            break
        size += max(allocation.nbytes, tensor.numel() * tensor.element_size())  # the latter where it is expanded
        exact = exact and not (tensor.is_floating_point() or tensor.is_complex())
    exact = exact or op.name == "aten::logical_not"  # of a mask of floats (see `face.masks`)
    limit = INTEGER_LIMIT_BYTES if exact else 4 * FLOAT_LIMIT_BYTES
    if known and tensors and size <= limit and not _too_large(results):
        if op.random:
            with randomness.Region(kwargs.get("generator")):
                _run_for_real(op, args, kwargs, results)
        else:
            _run_for_real(op, args, kwargs, results)
        return
    _forget_written(op, args, kwargs)
    _note_what_is_known(op, args, results)


def _too_large(results: Sequence[Any]) -> bool:
    """Whether no content of the results would be kept, as when small tensors are broadcast to a large one."""
    made = [result for result in results if isinstance(result, _Tensor)]
    return bool(made) and all(allocation_of(result).nbytes > limit_bytes(result.dtype) for result in made)


def _forget_written(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    for where in op.writes:
        written = args[where] if isinstance(where, int) and where < len(args) else kwargs.get(str(where))
        for tensor in written if isinstance(written, (list, tuple)) else (written,):
            if isinstance(tensor, _Tensor) and native_index(tensor):
                forget(tensor)


def _renew(tensor: torch.Tensor, allocation: Allocation) -> bool:
    """Give a tensor that is about to be overwritten as a whole room for known content."""
    nbytes = allocation.nbytes
    if nbytes > limit_bytes(tensor.dtype) or tensor.numel() * tensor.element_size() != nbytes:
        return False
    allocation.values = torch.UntypedStorage(nbytes)
    return True


def _note_what_is_known(op: Operator, args: Sequence[Any], results: Sequence[Any]) -> None:
    rule = hints.RULES.get(op.name)
    if rule is not None:
        noted = rule(args, results)
        if noted is not None:
            which, hint = noted
            allocation_of(results[which]).bounds = hint
    elif op.name in _CERTAIN:
        certainly = hints.certain(op.name, args)
        if certainly is not None and allocation_of(results[0]).nbytes <= INTEGER_LIMIT_BYTES:
            know(results[0], torch.tensor(certainly))


_CERTAIN = frozenset(
    f"aten::{name}"
    for name in ("ne.Scalar", "eq.Scalar", "eq.Tensor", "ne.Tensor", "isnan", "isinf", "isposinf", "isneginf")
)


def _run_for_real(op: Operator, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[Any]) -> None:
    real_kwargs = {name: _real_argument(value) for name, value in kwargs.items()}
    real_args = [_real_argument(value) for value in args]
    try:
        outcome = op.call(real_args, real_kwargs)
    except (NotImplementedError, RuntimeError):  # the CPU cannot do what CUDA can: the content is not known
        _forget_written(op, args, kwargs)
        return
    outcomes = outcome if len(op.written) > 1 else (outcome,)
    for result, content, source in zip(results, outcomes, op.written):
        if source is None:
            _know_all(result, content)


def _know_all(result: Any, content: Any) -> None:
    if isinstance(result, _Tensor):
        # Some operators give outputs of other sizes on the CPU than on CUDA (what batch norm saves in evaluation).
        if allocation_of(result).nbytes <= limit_bytes(result.dtype) and content.shape == result.shape:
            know(result, content)
    elif isinstance(result, (list, tuple)):
        for one, its_content in zip(result, content):
            _know_all(one, its_content)
