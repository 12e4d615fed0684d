"""Sparse tensors in coordinate format on the virtual GPU: gradients of ``nn.Embedding(sparse=True)`` and their like.

    tensors.py       what a virtual sparse tensor is, and how one is made
    coalescing.py    sorting and adding up equal indices
    sums.py          dense + sparse, sparse + sparse
    shared.py        which functions of C++'s serve the CPU and CUDA alike, and are run as they are
    registration.py  all of it, put under PyTorch's dispatcher; what is left is refused by name

A virtual sparse tensor is C++'s own (``SparseTensorImpl``) with two virtual tensors inside, indices and values, so its
memory is theirs. Sources: aten/src/ATen/native/sparse and sparse/cuda.
"""
