"""Operators whose sparse function in C++ is the same for the CPU and for CUDA.

It puts the result together from operations on indices and values, and looks at no content itself, so it is run as it
is. Only names that have been tried are here: a function that reads memory would end the process.
"""

from __future__ import annotations

_UNARY = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "frac", "log1p",
    "nan_to_num", "neg", "rad2deg", "round", "sgn", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip

SHARED = (
    *(f"{name}{form}" for name in _UNARY for form in ("", "_", ".out")),
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_to_dense", "_values", "add.Tensor", "add_.Tensor", "any",
    "cat", "clone", "copy_", "copy_sparse_to_sparse_", "dense_dim", "div.Tensor", "div.Tensor_mode", "div.out",
    "div.out_mode", "div_.Tensor", "div_.Tensor_mode", "empty_like", "indices", "is_coalesced", "isinf", "isnan",
    "isneginf", "isposinf", "mul.Tensor", "mul_.Tensor", "native_norm", "native_norm.ScalarOpt_dim_dtype",
    "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "permute", "pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "relu",
    "relu_", "resize_as_sparse_", "signbit", "signbit.out", "sparse_dim", "sparse_mask", "sparse_resize_",
    "sparse_resize_and_clear_", "sub.Tensor", "sub.out", "sub_.Tensor", "sum", "sum.dim_IntList", "unsqueeze",
    "values", "zero_", "zeros.out", "_sparse_broadcast_to", "_to_sparse", "_to_sparse.sparse_dim",
)  # fmt: skip
