"""Where PyTorch's C++ or Python asks whether a tensor is on CUDA, and how the virtual GPU answers each place.

C++ takes a virtual tensor for one on ``meta``, so such a question would get the wrong answer in silence. This table is
what the documentation shows and what a test goes through. `uncovered` compares it with the installed PyTorch's own list
of operators, so that a new kernel of CUDA's is noticed when PyTorch's version changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Branch(NamedTuple):
    """One place that asks. `asked_in` is below aten/src/ATen/native unless it starts with ``torch/``."""

    operators: tuple[str, ...]
    asked_in: str
    on_cuda: str
    module: str


_ACTS, _KINDS = ("tanh", "relu"), ("input", "data")
BRANCHES: tuple[Branch, ...] = (
    Branch(
        ("scaled_dot_product_attention",),
        "transformers/attention.cpp",
        "flash, memory-efficient, cuDNN or mathematics, by GPU, PyTorch's order and the script's switches",
        "attention",
    ),
    Branch(("dropout",), "Dropout.cpp", "one kernel with a mask of one byte an element", "dropout"),
    Branch(("softmax.int", "log_softmax.int"), "SoftMax.cpp", "float16 to float32 in the kernel", "softmax"),
    Branch(
        (*("lstm.input", "lstm.data", "gru.input", "gru.data"), *(f"rnn_{n}.{k}" for n in _ACTS for k in _KINDS)),
        "RNN.cpp",
        "cuDNN, with one buffer of weights and a reserve for backward",
        "recurrent",
    ),
    Branch(("lstm_cell", "gru_cell"), "RNN.cpp", "two products and one fused kernel", "recurrent_cells"),
    Branch(("_batch_norm_impl_index",), "Normalization.cpp", "cuDNN where it can, else CUDA's own", "normalization"),
    Branch(("_weight_norm",), "WeightNorm.cpp", "one kernel for the first or last dimension", "normalization"),
    Branch(("grid_sampler",), "GridSampler.cpp", "cuDNN for bilinear samples of aligned corners", "sampling"),
    Branch(
        ("convolution", "_convolution", "convolution_backward"),
        "Convolution.cpp",
        "cuDNN, channels last where input or weight suggests it",
        "convolution",
    ),
    Branch(
        ("_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_ctc_loss_backward", "_ctc_loss_backward.Tensor"),
        "LossCTC.cpp",
        "cuDNN for flat int32 targets on the host and full lengths, else CUDA's own",
        "ctc",
    ),
    Branch(("_fused_rms_norm", "_fused_rms_norm_backward"), "layer_norm.cpp", "one kernel", "normalization"),
    Branch(
        ("native_group_norm",),
        "group_norm.cpp",
        "contiguous output, statistics in the input's type",
        "normalization",
    ),
    Branch(
        ("_native_multi_head_attention", "_transformer_encoder_layer_fwd"),
        "transformers/transformer.cpp, torch/nn/modules/activation.py",
        "products and one attention kernel",
        "fast_path",
    ),
    Branch(
        ("_nested_tensor_from_mask_left_aligned", "_nested_tensor_from_mask", "_nested_from_padded"),
        "nested, torch/nn/modules/transformer.py",
        "a padded batch is packed into one buffer where its mask is known",
        "nested",
    ),
    Branch(("mm", "addmm", "bmm", "baddbmm"), "cuda/Blas.cpp", "cuBLAS and its workspaces", "cublas"),
    Branch(
        ("sum.dim_IntList", "mean.dim", "linalg_vector_norm", "amax", "var.correction"),
        "cuda/Reduce.cuh",
        "partial results of several blocks in global memory",
        "reductions",
    ),
    Branch(
        ("_softmax", "_log_softmax_backward_data", "nll_loss_forward", "sort.stable"),
        "cuda",
        "temporaries of the kernel (the table in that module names the file of each)",
        "temporaries",
    ),
    Branch(
        ("embedding_dense_backward", "_embedding_bag_dense_backward", "_index_put_impl_"),
        "cuda/Embedding.cu, cuda/EmbeddingBag.cu, cuda/Indexing.cu",
        "indices are sorted, and equal ones added up in parts",
        "index_sorting",
    ),
    Branch(("_embedding_bag",), "cuda/EmbeddingBag.cu", "CUDA's own set of outputs", "temporaries"),
    Branch(
        ("batch_norm_stats", "batch_norm_elemt", "batch_norm_backward_reduce"),
        "torch/nn/modules/_functions.py",
        "the parts of synchronized batch norm",
        "synchronized",
    ),
)

RIGHT_AS_IT_IS = {
    "max_pool1d": "asks for the CPU only, and meta is not the CPU",
    "group_norm": "asks for the CPU only",
    "fill_": "asks for the CPU only, for a shortcut",
    "norm": "accepts meta like CUDA",
    "_to_copy": "asks for CUDA to pin the copy on the host, which is not GPU memory",
    "cdist": "asks inside the kernel, which is answered by its shape; the product for p = 2 is not modelled",
    "_fft_c2c": "cuFFT's workspace is not modelled",
    "linalg_svd": "cuSOLVER's and MAGMA's workspaces are not modelled",
}
"""Places that ask and get an answer that makes no difference, or a known gap."""

EXEMPT = {
    "cudnn_affine_grid_generator": "nothing calls it: F.affine_grid takes the common operator",
    "cudnn_affine_grid_generator_backward": "nothing calls it",
    "cudnn_convolution_relu": "only made by graph fusion, which the virtual GPU does not run",
    "cudnn_convolution_add_relu": "only made by graph fusion, which the virtual GPU does not run",
    "_cslt_compress": "cuSPARSELt: semi-structured sparsity is refused by its missing shape function",
    "_cslt_sparse_mm_search": "cuSPARSELt",
    "_sparse_semi_structured_tile": "semi-structured sparsity",
    "_sparse_semi_structured_apply": "semi-structured sparsity",
    "_sparse_semi_structured_apply_dense": "semi-structured sparsity",
    "_to_sparse_semi_structured": "semi-structured sparsity",
    "_mixed_dtypes_linear": "quantized inference, private",
    "_scaled_grouped_mm_v2": "private; answered by its shape function where there is one",
    "_conv_depthwise2d": "reached only through convolution, which is answered whole",
    "conv_depthwise3d": "reached only through convolution, which is answered whole",
    "record_stream": "answered by the face of torch.cuda",
    "_cudnn_attention_forward": "private form of the answered operator",
    "_cudnn_attention_backward": "private form of the answered operator",
    "_triton_scaled_dot_attention": "private, unused",
    "_triton_multi_head_attention": "private, unused",
    "_masked_scale": "the backward of an operator that nothing calls",
    "_fused_dropout": "the dropout of old versions",
}
"""Operators with a kernel of their own on CUDA that have no stand-in, each with the reason."""
EXEMPT_PREFIXES = {"miopen_": "AMD's library", "_use_miopen": "AMD's library"}


def uncovered(kernels: Iterable[str], covered: Iterable[str]) -> list[str]:
    """Operators of CUDA that the virtual GPU neither answers nor exempts (``out=`` forms aside)."""
    known = set(covered)
    return sorted(
        name
        for name in kernels
        if f"aten::{name}" not in known
        and not re.search(r"\.(\w*_)?out$|_out(put)?$|\.\w+_out\w*$", name)
        and name not in EXEMPT
        and not name.startswith(tuple(EXEMPT_PREFIXES))
    )


def as_markdown() -> str:
    """The table as the documentation shows it."""
    lines = ["| operators | PyTorch asks in | on CUDA | answered in |", "|---|---|---|---|"]
    for branch in BRANCHES:
        operators = ", ".join(f"`{name}`" for name in branch.operators)
        lines.append(f"| {operators} | {branch.asked_in} | {branch.on_cuda} | `kernels/{branch.module}.py` |")
    return "\n".join(lines)
