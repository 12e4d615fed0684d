"""Rows picked by number: what is picked moves, not the table."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation, TensorType


@formula(
    "embedding",
    "index_select",
    "gather",
    "index",
    "take",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "masked_select",
)
def gather(operation: Operation) -> tuple[Kernel, ...]:
    made = sum(output.bytes for output in operation.outputs)
    indices = sum(t.bytes for t in operation.inputs() if t.dtype in ("int64", "int32", "bool"))
    return (Kernel("gather", bytes_read=made + indices, bytes_written=made),)


@formula("embedding_dense_backward", "_embedding_bag_dense_backward")
def embedding_backward(operation: Operation) -> tuple[Kernel, ...]:
    """The table's gradient is zeroed, the indices are sorted, then rows are added up.

    Source: aten/src/ATen/native/cuda/{Embedding.cu, EmbeddingBackwardKernel.cu}; up to 3072 indices one kernel
    adds them without a sort.
    """
    grad, indices = operation.tensor(0), operation.tensor(1)
    zeros = Kernel("fill", bytes_written=written_bytes(operation))
    add = Kernel("scatter", bytes_read=2 * grad.bytes + indices.bytes, bytes_written=grad.bytes)
    return (zeros, add) if indices.count <= 3072 else (zeros, *sort_kernels(indices), add)


def sort_kernels(keys: TensorType, value_bytes: int = 8) -> tuple[Kernel, ...]:
    """A radix sort of keys with their positions: 8 bits a pass, each a histogram and a move."""
    passes = keys.item_bytes
    moved = keys.count * (keys.item_bytes + value_bytes)
    return (Kernel("sort", bytes_read=passes * moved, bytes_written=passes * moved, launches=2 + passes),)


@formula("index_put_", "_index_put_impl_", "_unsafe_index_put")
def index_put(operation: Operation) -> tuple[Kernel, ...]:
    """Values are written to the numbered places; where they are added up, the indices are sorted first."""
    values = operation.argument(2)
    value_bytes = values.bytes if isinstance(values, TensorType) else 0
    indices = [t for t in operation.inputs() if t.dtype in ("int64", "int32")]
    accumulate = operation.argument(3, False) is True
    copied = sum(output.bytes for output in operation.outputs)
    write = Kernel("scatter", bytes_read=(1 + accumulate) * value_bytes, bytes_written=value_bytes + copied)
    if accumulate and indices:
        return (*sort_kernels(max(indices, key=lambda t: t.count)), write)
    return (write,)


@formula(
    "scatter_", "scatter_add_", "index_add_", "index_copy_", "scatter", "scatter_add", "scatter_reduce_", "index_fill_"
)
def scatter(operation: Operation) -> tuple[Kernel, ...]:
    """As many places as there are indices; a copy first where it is not in place."""
    made = sum(output.bytes for output in operation.outputs)
    sources = list(operation.inputs())[1:]
    moved = sum(t.bytes for t in sources)
    largest = max((t.count for t in sources), default=0)
    target = next(operation.inputs()).item_bytes
    kernel = Kernel("scatter", bytes_read=moved, bytes_written=largest * target)
    return (Kernel("copy", bytes_read=made, bytes_written=made), kernel) if made else (kernel,)


@formula("sort", "argsort", "topk", "kthvalue", "unique_dim", "_unique2", "searchsorted", "bucketize", "multinomial")
def sort(operation: Operation) -> tuple[Kernel, ...]:
    keys = max(operation.inputs(), key=lambda t: t.count)
    return sort_kernels(keys)


@formula("nonzero", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "bincount", "histc")
def scan(operation: Operation) -> tuple[Kernel, ...]:
    """Two kernels: sums of blocks, then the positions."""
    read = read_bytes(operation)
    return (
        Kernel("reduction", bytes_read=read),
        Kernel("copy", bytes_read=read, bytes_written=written_bytes(operation)),
    )
