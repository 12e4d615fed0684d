"""Element types that do not go together, or that a kernel does not have."""

from __future__ import annotations

from golden_errors.rows import Row, always, no_kernel

_BLAS = "aten/src/ATen/native/cuda/Blas.cpp"
_META = "aten/src/ATen/native/LinearAlgebra.cpp (rules that all devices share)"
_CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"
_DATA = "data_ptr<T> in aten/src/ATen/templates/TensorMethods.cpp"
_INVERT = always(
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
    "`~` or `logical_not()` operator instead."
)
_SUBTRACT = "aten/src/ATen/native/BinaryOps.h, sub_check; printed by the CPU of 2.13"
_HALF_FLOAT = always("expected scalar type Half but found Float")

ROWS = [
    Row(
        "half matrix times float matrix",
        "half(2, 4) @ gpu(4, 4)",
        "RuntimeError",
        always("expected mat1 and mat2 to have the same dtype, but got: c10::Half != float"),
        f"{_BLAS}; libtorch_cuda.so of 2.6 to 2.14",
    ),
    Row(
        "float matrix times half matrix",
        "gpu(2, 4) @ half(4, 4)",
        "RuntimeError",
        always("expected mat1 and mat2 to have the same dtype, but got: float != c10::Half"),
        f"{_BLAS}; libtorch_cuda.so of 2.6 to 2.14",
    ),
    Row(
        "linear layer without bias on half input",
        "nn.Linear(4, 3, bias=False).cuda()(half(2, 4))",
        "RuntimeError",
        always("expected mat1 and mat2 to have the same dtype, but got: c10::Half != float"),
        _BLAS,
    ),
    Row(
        "linear layer on half input",
        "nn.Linear(4, 3).cuda()(half(2, 4))",
        "RuntimeError",
        always("mat1 and mat2 must have the same dtype, but got Half and Float"),
        f"{_META}; printed by the CPU of 2.6 to 2.14",
    ),
    Row(
        "linear layer on double input",
        "nn.Linear(4, 3).cuda()(gpu(2, 4).double())",
        "RuntimeError",
        always("mat1 and mat2 must have the same dtype, but got Double and Float"),
        f"{_META}; the usual end of data that came from NumPy",
    ),
    Row(
        "linear layer on integer input",
        "nn.Linear(4, 3).cuda()(torch.ones(2, 4, dtype=torch.long, device='cuda'))",
        "RuntimeError",
        always("mat1 and mat2 must have the same dtype, but got Long and Float"),
        _META,
    ),
    Row(
        "half bias",
        "torch.addmm(half(3), gpu(2, 4), gpu(4, 3))",
        "RuntimeError",
        always("self and mat2 must have the same dtype, but got Half and Float"),
        _META,
    ),
    Row("batched half times float", "torch.bmm(half(2, 3, 4), gpu(2, 4, 3))", "RuntimeError", _HALF_FLOAT, _DATA),
    Row(
        "batched half times float, four dimensions",
        "torch.matmul(half(2, 2, 3, 4), gpu(2, 2, 4, 3))",
        "RuntimeError",
        _HALF_FLOAT,
        _DATA,
    ),
    Row(
        "baddbmm of half and float",
        "torch.baddbmm(gpu(2, 3, 3), half(2, 3, 4), gpu(2, 4, 3))",
        "RuntimeError",
        always("Input dtypes must be the same, got: input float, batch1: c10::Half, batch2: float"),
        f"{_META}; printed by the CPU of 2.6 to 2.14",
    ),
    Row(
        "half matrix times float vector",
        "half(3, 4) @ gpu(4)",
        "RuntimeError",
        {
            (2, 6): "expected scalar type Half but found Float",
            (2, 12): "addmv input tensors must have the same dtype, but got Float, Half, and Float",
        },
        f"{_META}; the second text is in libtorch_cpu from 2.12 on",
    ),
    Row(
        "half vector times float vector",
        "torch.dot(half(4), gpu(4))",
        "RuntimeError",
        always("dot : expected both vectors to have same dtype, but found Half and Float"),
        _BLAS,
    ),
    Row(
        "integer matrices",
        "torch.ones(2, 2, dtype=torch.long, device='cuda') @ torch.ones(2, 2, dtype=torch.long, device='cuda')",
        "not implemented",
        no_kernel("addmm_cuda", "Long"),
        _BLAS,
    ),
    Row(
        "convolution, half input and float weight",
        "F.conv2d(half(1, 3, 8, 8), gpu(4, 3, 3, 3))",
        "RuntimeError",
        always("Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same"),
        f"{_CONVOLUTION}, spelt as processErrorMsg in torch/csrc/Exceptions.cpp does",
    ),
    Row(
        "convolution, bfloat16 input and float weight",
        "F.conv2d(gpu(1, 3, 8, 8).bfloat16(), gpu(4, 3, 3, 3))",
        "RuntimeError",
        always("Input type (CUDABFloat16Type) and weight type (torch.cuda.FloatTensor) should be the same"),
        f"{_CONVOLUTION}; bfloat16 has no legacy class",
    ),
    Row(
        "convolution, byte images",
        "F.conv2d(torch.zeros(1, 3, 8, 8, dtype=torch.uint8, device='cuda'), gpu(4, 3, 3, 3))",
        "RuntimeError",
        always("Input type (torch.cuda.ByteTensor) and weight type (torch.cuda.FloatTensor) should be the same"),
        _CONVOLUTION,
    ),
    Row(
        "convolution, float input and half bias",
        "F.conv2d(gpu(1, 3, 8, 8), gpu(4, 3, 3, 3), half(4))",
        "RuntimeError",
        always("Input type (float) and bias type (c10::Half) should be the same"),
        f"{_CONVOLUTION}, conv2d",
    ),
    Row(
        "convolution module on half input",
        "nn.Conv2d(3, 4, 3).cuda()(half(1, 3, 8, 8))",
        "RuntimeError",
        always("Input type (c10::Half) and bias type (float) should be the same"),
        f"{_CONVOLUTION}, conv2d looks at the bias first",
    ),
    Row(
        "layer norm of half with float weights",
        "nn.LayerNorm(4).cuda()(half(2, 4))",
        "RuntimeError",
        _HALF_FLOAT,
        _DATA,
    ),
    Row(
        "group norm of half with float weights",
        "nn.GroupNorm(2, 4).cuda()(half(2, 4, 3))",
        "RuntimeError",
        _HALF_FLOAT,
        _DATA,
    ),
    Row(
        "batch norm of float with half weights",
        "nn.BatchNorm2d(3).cuda().half()(gpu(2, 3, 4, 4))",
        "RuntimeError",
        always(
            "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 "
            "'weight'; but type "
            "torch.cuda.FloatTensor does not equal torch.cuda.HalfTensor (while checking arguments "
            "for cudnn_batch_norm)"
        ),
        "aten/src/ATen/native/cudnn/BatchNorm.cpp and aten/src/ATen/TensorUtils.cpp",
    ),
    Row(
        "cross-entropy, int32 targets",
        "F.cross_entropy(gpu(2, 3), torch.zeros(2, dtype=torch.int32, device='cuda'))",
        "RuntimeError or not implemented",
        {
            (2, 6): "\"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Int'",
            (2, 12): "expected target dtype to be Long or Byte, but got Int",
        },
        "aten/src/ATen/native/cuda/NLLLoss.cu; aten/src/ATen/native/LossNLL.cpp from 2.12 on",
    ),
    Row(
        "cross-entropy, float class numbers",
        "F.cross_entropy(gpu(2, 3), gpu(2))",
        "RuntimeError or not implemented",
        {
            (2, 6): "\"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Float'",
            (2, 12): "expected target dtype to be Long or Byte, but got Float",
        },
        "aten/src/ATen/native/cuda/NLLLoss.cu; aten/src/ATen/native/LossNLL.cpp from 2.12 on",
    ),
    Row(
        "cross-entropy of one sample, int32 target",
        "F.cross_entropy(gpu(3), torch.zeros((), dtype=torch.int32, device='cuda'))",
        "RuntimeError or not implemented",
        {
            (2, 6): "\"nll_loss_forward_reduce_cuda_kernel_1d_index\" not implemented for 'Int'",
            (2, 12): "expected target dtype to be Long or Byte, but got Int",
        },
        "aten/src/ATen/native/cuda/NLLLoss.cu; aten/src/ATen/native/LossNLL.cpp from 2.12 on",
    ),
    Row(
        "cross-entropy of images, int32 targets",
        "F.cross_entropy(gpu(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.int32, device='cuda'))",
        "RuntimeError",
        always("expected scalar type Long but found Int"),
        "aten/src/ATen/native/cuda/NLLLoss2d.cu",
    ),
    Row(
        "cross-entropy, half class weights",
        "F.cross_entropy(gpu(2, 3), torch.tensor([1, 2], device='cuda'), weight=half(3))",
        "RuntimeError",
        always("expected scalar type Float but found Half"),
        _DATA,
    ),
    Row(
        "binary cross-entropy on integer targets",
        "F.binary_cross_entropy(gpu(2).sigmoid(), torch.ones(2, dtype=torch.long, device='cuda'))",
        "RuntimeError",
        always("Found dtype Long but expected Float"),
        "aten/src/ATen/TensorIterator.cpp; printed by the CPU of 2.6 to 2.14",
    ),
    Row(
        "binary cross-entropy with logits on integer targets",
        "F.binary_cross_entropy_with_logits(gpu(2), torch.ones(2, dtype=torch.long, device='cuda'))",
        "RuntimeError",
        always("result type Float can't be cast to the desired output type Long"),
        "aten/src/ATen/TensorIterator.cpp; printed by the CPU of 2.6 to 2.14",
    ),
    Row(
        "binary cross-entropy under autocast",
        "with torch.autocast('cuda'): F.binary_cross_entropy(gpu(2).sigmoid(), gpu(2).sigmoid())",
        "RuntimeError",
        always(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
            "safe to autocast."
        ),
        "aten/src/ATen/autocast_mode.cpp",
    ),
    Row(
        "mean squared error of integers",
        "F.mse_loss(torch.ones(2, dtype=torch.long, device='cuda'), torch.ones(2, dtype=torch.long, device='cuda'))",
        "not implemented",
        no_kernel("mse_cuda", "Long"),
        "aten/src/ATen/native/cuda/PointwiseOpsKernel.cu",
    ),
    Row(
        "softmax of integers",
        "torch.ones(2, 2, dtype=torch.long, device='cuda').softmax(-1)",
        "not implemented",
        no_kernel("host_softmax", "Long"),
        "aten/src/ATen/native/cuda/SoftMax.cu",
    ),
    Row(
        "GELU of integers",
        "F.gelu(torch.ones(2, dtype=torch.long, device='cuda'))",
        "not implemented",
        no_kernel("GeluCUDAKernelImpl", "Long"),
        "aten/src/ATen/native/cuda/ActivationGeluKernel.cu",
    ),
    Row(
        "normal integers",
        "torch.randn(2, dtype=torch.long, device='cuda')",
        "not implemented",
        no_kernel("normal_kernel_cuda", "Long"),
        "aten/src/ATen/native/cuda/DistributionNormal.cu",
    ),
    Row(
        "mean of integers",
        "torch.ones(2, dtype=torch.long, device='cuda').mean()",
        "RuntimeError",
        always(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            "complex dtype. Got: Long"
        ),
        "aten/src/ATen/native/ReduceOps.cpp",
    ),
    Row(
        "integer to a negative power",
        "torch.ones(2, dtype=torch.long, device='cuda') ** -1",
        "RuntimeError",
        always("Integers to negative integer powers are not allowed."),
        "aten/src/ATen/native/Pow.cpp",
    ),
    Row(
        "float added into integers",
        "torch.zeros(2, dtype=torch.long, device='cuda').add_(gpu(2))",
        "RuntimeError",
        always("result type Float can't be cast to the desired output type Long"),
        "aten/src/ATen/TensorIterator.cpp",
    ),
    Row(
        "subtracting conditions",
        "torch.ones(2, dtype=torch.bool, device='cuda') - torch.ones(2, dtype=torch.bool, device='cuda')",
        "RuntimeError or not implemented",
        always(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        ),
        "aten/src/ATen/native/BinaryOps.h",
    ),
    Row(
        "a number minus a condition",
        "1 - torch.ones(2, dtype=torch.bool, device='cuda')",
        "RuntimeError",
        _INVERT,
        _SUBTRACT,
    ),
    Row("a condition minus floats", "(gpu(2) > 0) - gpu(2)", "RuntimeError", _INVERT, _SUBTRACT),
    Row(
        "a condition and floats",
        "(gpu(2) > 0) & gpu(2)",
        "not implemented",
        no_kernel("bitwise_and_cuda", "Float"),
        "aten/src/ATen/native/cuda/BinaryBitwiseOpsKernels.cu; github.com/ArcInstitute/state/pull/213",
    ),
    Row(
        "inverse of a half matrix",
        "torch.linalg.inv(half(2, 2))",
        "RuntimeError",
        always("linalg.inv: Low precision dtypes not supported. Got Half"),
        "aten/src/ATen/native/LinearAlgebraUtils.h",
    ),
    Row(
        "half written at indices of float",
        "gpu(4).index_put_((torch.tensor([1, 2], device='cuda'),), half(2))",
        "RuntimeError",
        always(
            "Index put requires the source and destination dtypes match, got Float for the "
            "destination and Half for the source."
        ),
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp",
    ),
    Row(
        "half scattered into float",
        "gpu(4).scatter_add(0, torch.tensor([1], device='cuda'), half(1))",
        "RuntimeError",
        always("scatter(): Expected self.dtype to be equal to src.dtype"),
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp",
    ),
    Row(
        "float indices",
        "gpu(4)[gpu(2)]",
        "IndexError",
        always("tensors used as indices must be long, int, byte or bool tensors"),
        "aten/src/ATen/native/IndexingUtils.h",
    ),
    Row(
        "embedding of floats",
        "F.embedding(gpu(2), gpu(4, 2))",
        "RuntimeError",
        always(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            "torch.cuda.FloatTensor instead (while checking arguments for embedding)"
        ),
        "aten/src/ATen/TensorUtils.cpp",
    ),
    Row(
        "attention on half queries and float keys",
        "F.scaled_dot_product_attention(half(1, 1, 4, 8), gpu(1, 1, 4, 8), gpu(1, 1, 4, 8))",
        "RuntimeError",
        always(
            "Expected query, key, and value to have the same dtype, but got query.dtype: c10::Half "
            "key.dtype: float and "
            "value.dtype: float instead."
        ),
        "aten/src/ATen/native/transformers/attention.cpp",
    ),
    Row(
        "eight-bit floats on an A100",
        "torch._scaled_mm(*eight_bit())",
        "RuntimeError",
        always(
            "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+"
        ),
        "aten/src/ATen/native/cuda/Blas.cpp; libtorch_cuda.so of 2.14",
    ),
]
