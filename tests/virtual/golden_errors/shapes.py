"""Shapes that do not fit, and indices out of range."""

from __future__ import annotations

from golden_errors.rows import DEVICE_ASSERT, Row, always

_META = "aten/src/ATen/native/LinearAlgebra.cpp (rules that all devices share)"
_ASSERT = "aten/src/ATen/native/cuda/Indexing.cu, ScatterGatherKernel.cu, NLLLoss.cu assert; c10/cuda reports"

ROWS = [
    Row(
        "matrix product",
        "gpu(2, 4) @ gpu(3, 4)",
        "RuntimeError",
        always("mat1 and mat2 shapes cannot be multiplied (2x4 and 3x4)"),
        _META,
    ),
    Row(
        "linear layer",
        "nn.Linear(4, 3).cuda()(gpu(2, 5))",
        "RuntimeError",
        always("mat1 and mat2 shapes cannot be multiplied (2x5 and 4x3)"),
        _META,
    ),
    Row(
        "batched product",
        "torch.bmm(gpu(1, 2, 3), gpu(2, 3, 3))",
        "RuntimeError",
        always("Expected size for first two dimensions of batch2 tensor to be: [1, 3] but got: [2, 3]."),
        _META,
    ),
    Row(
        "sum",
        "gpu(2, 3) + gpu(4)",
        "RuntimeError",
        always("The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
        "aten/src/ATen/ExpandUtils.cpp",
    ),
    Row(
        "copy",
        "gpu(2).copy_(gpu(3))",
        "RuntimeError",
        always("The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"),
        "aten/src/ATen/ExpandUtils.cpp",
    ),
    Row(
        "concatenation",
        "torch.cat([gpu(2, 3), gpu(3, 4)])",
        "RuntimeError",
        always(
            "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for "
            "tensor number 1 in the list."
        ),
        "aten/src/ATen/native/TensorShape.cpp",
    ),
    Row(
        "convolution channels",
        "nn.Conv2d(3, 4, 3).cuda()(gpu(1, 4, 8, 8))",
        "RuntimeError",
        always(
            "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 4, 8, 8] to have 3 "
            "channels, but got 4 channels instead"
        ),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "transposed convolution channels",
        "nn.ConvTranspose2d(3, 4, 3).cuda()(gpu(1, 4, 8, 8))",
        "RuntimeError",
        always(
            "Given transposed=1, weight of size [3, 4, 3, 3], expected input[1, 4, 8, 8] to have 3 "
            "channels, but got 4 channels instead"
        ),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "convolution bias",
        "F.conv2d(gpu(1, 3, 8, 8), gpu(4, 3, 3, 3), gpu(5))",
        "RuntimeError",
        always(
            "Given weight of size [4, 3, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of "
            "size [5] instead"
        ),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "batch norm channels",
        "nn.BatchNorm2d(4).cuda()(gpu(2, 3, 4, 4))",
        "RuntimeError",
        always("running_mean should contain 3 elements not 4"),
        "aten/src/ATen/native/Normalization.cpp",
    ),
    Row(
        "layer norm width",
        "nn.LayerNorm(4).cuda()(gpu(2, 3))",
        "RuntimeError",
        always("Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"),
        "aten/src/ATen/native/layer_norm.h",
    ),
    Row(
        "view of a transposed tensor",
        "gpu(2, 3).t().view(-1)",
        "RuntimeError",
        always(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        ),
        "aten/src/ATen/native/TensorShape.cpp",
    ),
    Row(
        "reshape",
        "gpu(2, 3).reshape(5)",
        "RuntimeError",
        always("shape '[5]' is invalid for input of size 6"),
        "aten/src/ATen/InferSize.h",
    ),
    Row(
        "expand",
        "gpu(2, 3).expand(4, 3)",
        "RuntimeError",
        always(
            "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  "
            "Target sizes: [4, 3].  Tensor sizes: [2, 3]"
        ),
        "aten/src/ATen/ExpandUtils.cpp",
    ),
    Row(
        "reduction over a dimension that is not there",
        "gpu(2).sum(3)",
        "IndexError",
        always("Dimension out of range (expected to be in range of [-1, 0], but got 3)"),
        "c10/core/WrapDimMinimal.cpp",
    ),
    Row(
        "topk of too few",
        "gpu(3).topk(5)",
        "RuntimeError",
        always("selected index k out of range"),
        "aten/src/ATen/native/Sorting.cpp",
    ),
    Row(
        "cross-entropy batch",
        "F.cross_entropy(gpu(2, 3), torch.tensor([1, 2, 0], device='cuda'))",
        "ValueError",
        always("Expected input batch_size (2) to match target batch_size (3)."),
        "aten/src/ATen/native/LossNLL.cpp",
    ),
    Row(
        "element by number",
        "gpu(3)[5]",
        "IndexError",
        always("index 5 is out of bounds for dimension 0 with size 3"),
        "aten/src/ATen/native/TensorShape.cpp",
    ),
    Row(
        "embedding out of range",
        "nn.Embedding(4, 2).cuda()(torch.tensor([9], device='cuda'))",
        "accelerator",
        DEVICE_ASSERT,
        _ASSERT,
    ),
    Row(
        "gather out of range",
        "gpu(3).gather(0, torch.tensor([5], device='cuda'))",
        "accelerator",
        DEVICE_ASSERT,
        _ASSERT,
    ),
    Row(
        "scatter out of range",
        "gpu(3).scatter(0, torch.tensor([7], device='cuda'), 1.0)",
        "accelerator",
        DEVICE_ASSERT,
        _ASSERT,
    ),
    Row("index out of range", "gpu(3)[torch.tensor([5], device='cuda')]", "accelerator", DEVICE_ASSERT, _ASSERT),
    Row(
        "negative index out of range",
        "gpu(3)[torch.tensor([-4], device='cuda')]",
        "accelerator",
        DEVICE_ASSERT,
        _ASSERT,
    ),
    Row(
        "class out of range",
        "F.cross_entropy(gpu(2, 3), torch.tensor([2, 3], device='cuda'))",
        "accelerator",
        DEVICE_ASSERT,
        f"{_ASSERT}; github.com/mrdbourke/pytorch-deep-learning/issues/1290",
    ),
    Row(
        "pixel class out of range",
        "F.cross_entropy(gpu(1, 3, 2, 2), torch.full((1, 2, 2), 255, device='cuda'))",
        "accelerator",
        DEVICE_ASSERT,
        "aten/src/ATen/native/cuda/NLLLoss2d.cu",
    ),
    Row(
        "one_hot out of range", "F.one_hot(torch.tensor([5], device='cuda'), 3)", "accelerator", DEVICE_ASSERT, _ASSERT
    ),
]
