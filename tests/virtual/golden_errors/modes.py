"""Autograd's errors on GPU tensors, deterministic mode, and kernels that a GPU does not have."""

from __future__ import annotations

from golden_errors.rows import Row, always, not_deterministic

_CUBLAS = always(
    "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
    "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic "
    "because it uses CuBLAS and you "
    "have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment "
    "variable before running "
    "your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8. For "
    "more information, go to "
    "https://docs.nvidia.com/cuda/cublas/index.html#results-reproducibility"
)
_CONTEXT = "aten/src/ATen/Context.cpp; in libtorch_cpu of 2.6 to 2.9, gone in 2.10"
_ALERT = "alertNotDeterministic under aten/src/ATen/native/cuda/; documentation of use_deterministic_algorithms"

ROWS = [
    Row(
        "deterministic matrix product",
        "with deterministic(): gpu(2, 2) @ gpu(2, 2)",
        "RuntimeError",
        _CUBLAS,
        _CONTEXT,
        until=(2, 10),
    ),
    Row(
        "deterministic cumulative sum",
        "with deterministic(): gpu(9).cumsum(0)",
        "RuntimeError",
        not_deterministic("cumsum_cuda_kernel"),
        _ALERT,
        until=(2, 14),
    ),
    Row(
        "deterministic adaptive pooling, backward",
        "with deterministic(): nn.AdaptiveAvgPool2d(2)(gpu(1, 1, 4, 4).requires_grad_()).sum().backward()",
        "RuntimeError",
        not_deterministic("adaptive_avg_pool2d_backward_cuda"),
        _ALERT,
    ),
    Row(
        "deterministic bilinear resizing, backward",
        "with deterministic(): F.interpolate(gpu(1, 1, 4, 4).requires_grad_(), scale_factor=2, "
        "mode='bicubic').sum().backward()",
        "RuntimeError",
        not_deterministic("upsample_bicubic2d_backward_out_cuda"),
        _ALERT,
    ),
    Row(
        "deterministic reflection padding, backward",
        "with deterministic(): F.pad(gpu(1, 1, 4, 4).requires_grad_(), (1, 1, 1, 1), mode='reflect').sum().backward()",
        "RuntimeError",
        not_deterministic("reflection_pad2d_backward_cuda"),
        _ALERT,
    ),
    Row(
        "deterministic grid sampling, backward",
        "with deterministic(): F.grid_sample(gpu(1, 1, 4, 4).requires_grad_(), gpu(1, 2, 2, 2), align_corners=False)"
        ".sum().backward()",
        "RuntimeError",
        not_deterministic("grid_sampler_2d_backward_cuda"),
        _ALERT,
    ),
    Row(
        "deterministic cross-entropy of images",
        "with deterministic(): F.cross_entropy(gpu(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long, device='cuda'))",
        "RuntimeError",
        not_deterministic("nll_loss2d_forward_out_cuda_template"),
        _ALERT,
    ),
    Row(
        "deterministic histogram",
        "with deterministic(): gpu(9).histc(4)",
        "RuntimeError",
        not_deterministic("_histc_cuda with floating point input"),
        _ALERT,
    ),
    Row(
        "deterministic weighted bincount",
        "with deterministic(): torch.bincount(torch.tensor([1, 2], device='cuda'), gpu(2))",
        "RuntimeError",
        not_deterministic("_bincount_cuda"),
        _ALERT,
    ),
    Row(
        "deterministic median",
        "with deterministic(): gpu(3, 3).median(0)",
        "RuntimeError",
        not_deterministic("median CUDA with indices output"),
        _ALERT,
    ),
    Row(
        "backward without a graph",
        "gpu(2).sum().backward()",
        "RuntimeError",
        always("element 0 of tensors does not require grad and does not have a grad_fn"),
        "torch/csrc/autograd/autograd.cpp",
    ),
    Row(
        "backward twice",
        "loss = gpu(2).requires_grad_().pow(2).sum(); loss.backward(); loss.backward()",
        "RuntimeError",
        always(
            "Trying to backward through the graph a second time (or directly access saved tensors "
            "after they have already "
            "been freed). Saved intermediate values of the graph are freed when you call .backward() "
            "or autograd.grad(). "
            "Specify retain_graph=True if you need to backward through the graph a second time or if "
            "you need to access saved "
            "tensors after calling backward."
        ),
        "torch/csrc/autograd/saved_variable.cpp",
    ),
    Row(
        "backward from more than one value",
        "gpu(2).requires_grad_().mul(2).backward()",
        "RuntimeError",
        always("grad can be implicitly created only for scalar outputs"),
        "torch/autograd/__init__.py",
    ),
    Row(
        "parameter changed in place",
        "gpu(2).requires_grad_().add_(1)",
        "RuntimeError",
        always("a leaf Variable that requires grad is being used in an in-place operation."),
        "torch/csrc/autograd/VariableTypeUtils.h",
    ),
    Row(
        "saved tensor changed in place",
        "x = gpu(2).requires_grad_(); y = x.exp(); y.add_(1); y.sum().backward()",
        "RuntimeError",
        {
            (2, 6): (
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "[torch.cuda.FloatTensor [2]], which is output 0 of ExpBackward0, is at version 1; expected version 0 "
                "instead. Hint: enable anomaly detection to find the operation that failed to "
                "compute its gradient, with "
                "torch.autograd.set_detect_anomaly(True)."
            ),
            (2, 11): (
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "[torch.cuda.FloatTensor [2]], which is output 0 of Exp, is at version 1; expected "
                "version 0 instead. Hint: "
                "enable anomaly detection to find the operation that failed to compute its gradient, with "
                "torch.autograd.set_detect_anomaly(True, check_nan=False)."
            ),
        },
        "torch/csrc/autograd/saved_variable.cpp; the second text is in libtorch_cpu from 2.11 on",
    ),
    Row(
        "flash attention in float32",
        "with attention('FLASH_ATTENTION'): F.scaled_dot_product_attention(gpu(1, 1, 4, 8), gpu(1, "
        "1, 4, 8), gpu(1, 1, 4, 8))",
        "RuntimeError",
        always("No available kernel. Aborting execution."),
        "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; libtorch_cuda.so of 2.6 to 2.14",
    ),
]
