"""Tensors on different devices, devices that are not there, and the way to NumPy."""

from __future__ import annotations

from golden_errors.rows import INVALID_ORDINAL, Row, always, iterator, wrapper

_TABLE = "wrapper generated from native_functions.yaml; words in aten/src/ATen/core/op_registration/adaption.cpp"
_ITERATOR = "aten/src/ATen/TensorIterator.cpp"
_INDEXING = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"
_RUNTIME = "c10/cuda/CUDAException.cpp, CUDAMiscFunctions.cpp; libc10_cuda.so of 2.6 to 2.12 and 2.14"
_VARIABLE = "torch/csrc/autograd/python_variable.cpp, THPVariable_set_grad"
_GRADIENT = (
    "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. "
    "Please ensure that the gradient and the tensor are on the same device"
)
_RNN = "aten/src/ATen/native/RNN.h, check_attributes"

ROWS = [
    Row("GPU tensor plus CPU tensor", "gpu(2) + cpu(2)", "RuntimeError", iterator(), _ITERATOR),
    Row("CPU tensor plus GPU tensor", "cpu(2) + gpu(2)", "RuntimeError", iterator(), _ITERATOR),
    Row("GPU tensor added into CPU tensor", "cpu(2).add_(gpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row("GPU tensor added into CPU scalar", "cpu().add_(gpu())", "RuntimeError", iterator(), _ITERATOR),
    Row("result into a CPU tensor", "torch.add(gpu(2), gpu(2), out=cpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row("matrix product", "gpu(2, 2) @ cpu(2, 2)", "RuntimeError", wrapper("mat2", "wrapper_CUDA_mm"), _TABLE),
    Row(
        "matrix product, CPU first",
        "cpu(2, 2) @ gpu(2, 2)",
        "RuntimeError",
        wrapper("mat2", "wrapper_CUDA_mm", "cuda:0", "cpu"),
        _TABLE,
    ),
    Row(
        "linear layer on CPU input",
        "nn.Linear(4, 3).cuda()(cpu(2, 4))",
        "RuntimeError",
        wrapper("mat1", "wrapper_CUDA_addmm"),
        f"{_TABLE}; github.com/ClownsharkBatwing/RES4LYF/pull/223",
    ),
    Row(
        "linear layer left on the CPU",
        "nn.Linear(4, 3)(gpu(2, 4))",
        "RuntimeError",
        wrapper("mat1", "wrapper_CUDA_addmm", "cuda:0", "cpu"),
        f"{_TABLE}; github.com/haotian-liu/LLaVA/issues/1081",
    ),
    Row(
        "batched product",
        "torch.bmm(gpu(1, 2, 2), cpu(1, 2, 2))",
        "RuntimeError",
        wrapper("mat2", "wrapper_CUDA_bmm"),
        _TABLE,
    ),
    Row(
        "matrix times vector",
        "gpu(2, 2) @ cpu(2)",
        "RuntimeError",
        wrapper("vec", "wrapper_CUDA_addmv_"),
        f"{_TABLE}; mv in Blas.cpp",
    ),
    Row("dot product", "torch.dot(gpu(2), cpu(2))", "RuntimeError", wrapper("tensor", "wrapper_CUDA__dot"), _TABLE),
    Row("outer product", "torch.outer(gpu(2), cpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row(
        "concatenation",
        "torch.cat([gpu(2), cpu(2)])",
        "RuntimeError",
        wrapper("tensors", "wrapper_CUDA_cat"),
        f"{_TABLE}; github.com/scraed/LanPaint/issues/6",
    ),
    Row(
        "stack, CPU first",
        "torch.stack([cpu(2), gpu(2)])",
        "RuntimeError",
        wrapper("tensors", "wrapper_CUDA_cat", "cuda:0", "cpu"),
        f"{_TABLE}; github.com/Comfy-Org/ComfyUI/issues/7746",
    ),
    Row(
        "embedding of CPU indices",
        "nn.Embedding(4, 2).cuda()(torch.tensor([1]))",
        "RuntimeError",
        wrapper("index", "wrapper_CUDA__index_select"),
        f"{_TABLE}; github.com/XiaoxinHe/G-Retriever/issues/38",
    ),
    Row(
        "embedding left on the CPU",
        "nn.Embedding(4, 2)(torch.tensor([1], device='cuda'))",
        "RuntimeError",
        wrapper("index", "wrapper_CUDA__index_select", "cuda:0", "cpu"),
        f"{_TABLE}; github.com/smthemex/ComfyUI_YuE/issues/30",
    ),
    Row(
        "gather", "gpu(4).gather(0, torch.tensor([1]))", "RuntimeError", wrapper("index", "wrapper_CUDA_gather"), _TABLE
    ),
    Row(
        "scatter a number in place",
        "gpu(4).scatter_(0, torch.tensor([1]), 1.0)",
        "RuntimeError",
        wrapper("index", "wrapper_CUDA_scatter__value"),
        f"{_TABLE}; github.com/zhongyy/Face-Transformer/issues/37",
    ),
    Row(
        "CPU tensor indexed by GPU tensor",
        "cpu(4)[torch.tensor([1], device='cuda')]",
        "RuntimeError",
        always("indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
        f"{_INDEXING}; github.com/WongKinYiu/yolov7/issues/1101",
    ),
    Row(
        "CPU tensor indexed by GPU mask",
        "cpu(4)[torch.ones(4, dtype=torch.bool, device='cuda')]",
        "RuntimeError",
        always("indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
        _INDEXING,
    ),
    Row(
        "CPU values written at GPU indices",
        "gpu(4).__setitem__(torch.tensor([1, 2], device='cuda'), cpu(2))",
        "RuntimeError",
        iterator(),
        _INDEXING,
    ),
    Row(
        "masked_fill with a CPU mask",
        "gpu(4).masked_fill(torch.ones(4, dtype=torch.bool), 0.0)",
        "RuntimeError",
        always("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"),
        "aten/src/ATen/native/cuda/Indexing.cu; libtorch_cuda.so of 2.14",
    ),
    Row("where with a CPU condition", "torch.where(cpu(4) > 0, gpu(4), gpu(4))", "RuntimeError", iterator(), _ITERATOR),
    Row("where with a CPU branch", "torch.where(gpu(4) > 0, gpu(4), cpu(4))", "RuntimeError", iterator(), _ITERATOR),
    Row("addcmul", "torch.addcmul(gpu(4), cpu(4), gpu(4))", "RuntimeError", iterator(), _ITERATOR),
    Row("lerp", "gpu(4).lerp_(cpu(4), 0.5)", "RuntimeError", iterator(), _ITERATOR),
    Row(
        "clamp by a CPU tensor",
        "torch.clamp(gpu(4), min=torch.tensor(0.0))",
        "RuntimeError",
        wrapper("min", "wrapper_CUDA_clamp_Tensor"),
        f"{_TABLE}: this one takes no CPU scalars",
    ),
    Row(
        "prelu left on the CPU",
        "nn.PReLU()(gpu(2, 4))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA___prelu_kernel"),
        _TABLE,
    ),
    Row(
        "convolution on CPU input",
        "nn.Conv2d(3, 4, 3).cuda()(cpu(1, 3, 8, 8))",
        "RuntimeError",
        always("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same"),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "convolution left on the CPU",
        "nn.Conv2d(3, 4, 3)(gpu(1, 3, 8, 8))",
        "RuntimeError",
        always("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same"),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "transposed convolution on CPU input",
        "nn.ConvTranspose2d(3, 4, 3, bias=False).cuda()(cpu(1, 3, 8, 8))",
        "RuntimeError",
        always("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same"),
        "aten/src/ATen/native/Convolution.cpp",
    ),
    Row(
        "batch norm left on the CPU",
        "nn.BatchNorm2d(3)(gpu(2, 3, 4, 4))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA__cudnn_batch_norm"),
        f"{_TABLE}; a GPU input goes to cuDNN",
    ),
    Row(
        "batch norm on CPU input",
        "nn.BatchNorm2d(3).cuda()(cpu(2, 3, 4, 4))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA__native_batch_norm", "cuda:0", "cpu"),
        f"{_TABLE}; a CPU input does not",
    ),
    Row(
        "layer norm left on the CPU",
        "nn.LayerNorm(4)(gpu(2, 4))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA__native_layer_norm"),
        f"{_TABLE}; github.com/sipie800/ComfyUI-PuLID-Flux-Enhanced/issues/35",
    ),
    Row(
        "group norm left on the CPU",
        "nn.GroupNorm(2, 4)(gpu(2, 4, 3))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA__native_group_norm"),
        _TABLE,
    ),
    Row(
        "cross-entropy, targets on the CPU",
        "F.cross_entropy(gpu(2, 3), torch.tensor([1, 2]))",
        "RuntimeError",
        wrapper("target", "wrapper_CUDA_nll_loss_forward"),
        _TABLE,
    ),
    Row(
        "cross-entropy of images, targets on the CPU",
        "F.cross_entropy(gpu(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long))",
        "RuntimeError",
        wrapper("target", "wrapper_CUDA__nll_loss2d_forward"),
        _TABLE,
    ),
    Row(
        "cross-entropy, class weights on the CPU",
        "nn.CrossEntropyLoss(weight=torch.ones(3))(gpu(2, 3), torch.tensor([1, 2], device='cuda'))",
        "RuntimeError",
        wrapper("weight", "wrapper_CUDA_nll_loss_forward"),
        _TABLE,
    ),
    Row("mean squared error", "F.mse_loss(gpu(2), cpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row("absolute error", "F.l1_loss(gpu(2), cpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row("smooth L1", "F.smooth_l1_loss(gpu(2), cpu(2))", "RuntimeError", iterator(), _ITERATOR),
    Row("KL divergence", "F.kl_div(gpu(2), cpu(2), reduction='sum')", "RuntimeError", iterator(), _ITERATOR),
    Row(
        "binary cross-entropy",
        "F.binary_cross_entropy(gpu(2).sigmoid(), cpu(2).sigmoid())",
        "RuntimeError",
        iterator(),
        _ITERATOR,
    ),
    Row(
        "binary cross-entropy with logits",
        "F.binary_cross_entropy_with_logits(gpu(2), cpu(2).sigmoid())",
        "RuntimeError",
        iterator(),
        _ITERATOR,
    ),
    Row(
        "optimizer state left on the CPU",
        "m = nn.Linear(2, 2); o = torch.optim.Adam(m.parameters()); m(cpu(1, 2)).sum().backward(); o.step(); m.cuda(); "
        "o.zero_grad(); m(gpu(1, 2)).sum().backward(); o.step()",
        "RuntimeError",
        iterator(),
        f"{_ITERATOR}; foreach kernels go tensor by tensor then",
    ),
    Row(
        "attention with keys on the CPU",
        "F.scaled_dot_product_attention(gpu(1, 1, 4, 8), cpu(1, 1, 4, 8), cpu(1, 1, 4, 8))",
        "RuntimeError",
        always(
            "Expected query, key, and value to have the same device type, but got query.device: "
            "cuda:0 key.device: cpu and "
            "value.device: cpu instead."
        ),
        "aten/src/ATen/native/transformers/attention.cpp",
    ),
    Row(
        "LSTM on CPU input",
        "nn.LSTM(3, 4).cuda()(cpu(2, 2, 3))",
        "RuntimeError",
        always(
            "Input and parameter tensors are not at the same device, found input tensor at cpu and "
            "parameter tensor at cuda:0"
        ),
        _RNN,
    ),
    Row(
        "LSTM with a CPU state",
        "nn.LSTM(3, 4).cuda()(gpu(2, 2, 3), (cpu(1, 2, 4), cpu(1, 2, 4)))",
        "RuntimeError",
        always(
            "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu"
        ),
        _RNN,
    ),
    Row(
        "lengths of a packed sequence on the GPU",
        "nn.utils.rnn.pack_padded_sequence(gpu(3, 5, 4), torch.tensor([5, 3, 2]).cuda(), batch_first=True)",
        "RuntimeError",
        always("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"),
        "aten/src/ATen/native/PackedSequence.cpp",
    ),
    Row(
        "embedding bag of CPU indices",
        "nn.EmbeddingBag(4, 2).cuda()(torch.tensor([1, 2]), torch.tensor([0]))",
        "RuntimeError",
        wrapper("indices", "wrapper_CUDA___embedding_bag"),
        _TABLE,
    ),
    Row(
        "attention with a CPU mask",
        "F.scaled_dot_product_attention(gpu(1, 1, 4, 8), gpu(1, 1, 4, 8), gpu(1, 1, 4, 8), attn_mask=cpu(4, 4))",
        "RuntimeError",
        wrapper("attn_bias", "wrapper_CUDA___scaled_dot_product_efficient_attention"),
        f"{_TABLE}; in float32 with a mask the memory-efficient kernel is chosen",
    ),
    Row(
        "attention with a Boolean CPU mask",
        "F.scaled_dot_product_attention(gpu(1, 1, 4, 8), gpu(1, 1, 4, 8), gpu(1, 1, 4, 8), attn_mask=cpu(4, 4) > 0)",
        "RuntimeError",
        wrapper("attn_bias", "wrapper_CUDA___scaled_dot_product_efficient_attention"),
        f"{_TABLE}; the mask becomes numbers where it is",
    ),
    Row(
        "bincount with CPU weights",
        "torch.bincount(torch.tensor([1, 2], device='cuda'), cpu(2))",
        "RuntimeError",
        wrapper("weights", "wrapper_CUDA__bincount"),
        _TABLE,
    ),
    Row(
        "take_along_dim with CPU indices",
        "torch.take_along_dim(gpu(4), torch.tensor([1]), 0)",
        "RuntimeError",
        always(
            "Expected tensor to have cuda:0 Device, but got tensor with cpu Device "
            "(while checking arguments for torch.take_along_dim():)"
        ),
        f"{_INDEXING}; aten/src/ATen/TensorUtils.cpp, checkDevice",
    ),
    Row(
        "inner product",
        "torch.inner(gpu(2, 2), cpu(2, 2))",
        "RuntimeError",
        always(
            "Expected tensor to have cuda DeviceType, but got tensor with cpu DeviceType "
            "(while checking arguments for inner())"
        ),
        "aten/src/ATen/native/LinearAlgebra.cpp; aten/src/ATen/TensorUtils.cpp, checkDeviceType",
    ),
    Row(
        "product of several matrices",
        "torch.linalg.multi_dot([gpu(2, 2), cpu(2, 2)])",
        "RuntimeError",
        always("multi_dot(): all tensors must be on the same device but tensor 0 is on cuda:0 and tensor 1 on cpu"),
        "aten/src/ATen/native/LinearAlgebra.cpp",
    ),
    Row(
        "block diagonal",
        "torch.block_diag(cpu(2, 2), gpu(2, 2))",
        "RuntimeError",
        always(
            "torch.block_diag: input tensors must all be on the same device. "
            "Input 0 is on device cpu and input 1 is on device cuda:0"
        ),
        "aten/src/ATen/native/TensorShape.cpp",
    ),
    Row(
        "spectrogram with a CPU window",
        "torch.stft(gpu(1000), 100, window=cpu(100), return_complex=True)",
        "RuntimeError",
        always("stft input and window must be on the same device but got self on cuda:0 and window on cpu"),
        "aten/src/ATen/native/SpectralOps.cpp",
    ),
    Row(
        "CPU gradient assigned to a GPU parameter",
        "p = nn.Parameter(gpu(2)); p.grad = cpu(2)",
        "RuntimeError",
        always(_GRADIENT.format("cpu", "cuda")),
        _VARIABLE,
    ),
    Row(
        "GPU gradient assigned to a CPU parameter",
        "m = nn.Linear(2, 2); m.weight.grad = gpu(2, 2)",
        "RuntimeError",
        always(_GRADIENT.format("cuda", "cpu")),
        _VARIABLE,
    ),
    Row(
        "module on meta to the GPU",
        "nn.Linear(2, 2, device='meta').to('cuda')",
        "not implemented always",
        always(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
            "torch.nn.Module.to() when moving module from meta to a different device."
        ),
        "aten/src/ATen/native/Copy.cpp; torch/nn/modules/module.py",
    ),
    Row(
        "tensor on meta to the GPU",
        "torch.zeros(2, device='meta').cuda()",
        "not implemented always",
        always("Cannot copy out of meta tensor; no data!"),
        "aten/src/ATen/native/Copy.cpp",
    ),
    Row("equal", "torch.equal(gpu(2), cpu(2))", "RuntimeError", wrapper("other", "wrapper_CUDA__equal"), _TABLE),
    Row(
        "GPU tensor to NumPy",
        "gpu(2).numpy()",
        "TypeError",
        always(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        ),
        "torch/csrc/utils/tensor_numpy.cpp",
    ),
    Row(
        "GPU tensor to a NumPy array",
        "__import__('numpy').asarray(gpu(2))",
        "TypeError",
        always(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        ),
        "torch/_tensor.py, __array__",
    ),
    Row(
        "parameter to NumPy",
        "gpu(2).requires_grad_().cpu().numpy()",
        "RuntimeError",
        always("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."),
        "torch/csrc/utils/tensor_numpy.cpp",
    ),
    Row(
        "pinning a GPU tensor",
        "gpu(2).pin_memory()",
        "RuntimeError",
        always("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"),
        "aten/src/ATen/native/Memory.cpp",
    ),
    Row(
        "CPU generator for a GPU tensor",
        "torch.randn(2, device='cuda', generator=torch.Generator())",
        "RuntimeError",
        always("Expected a 'cuda' device type for generator but found 'cpu'"),
        "aten/src/ATen/core/Generator.h",
    ),
    Row("tensor on a second GPU", "torch.zeros(1, device='cuda:1')", "accelerator", INVALID_ORDINAL, _RUNTIME),
    Row("tensor to a second GPU", "cpu(1).to('cuda:1')", "accelerator", INVALID_ORDINAL, _RUNTIME),
    Row("module to a second GPU", "nn.Linear(2, 2).cuda(1)", "accelerator", INVALID_ORDINAL, _RUNTIME),
    Row("second GPU made current", "torch.cuda.set_device(1)", "accelerator", INVALID_ORDINAL, _RUNTIME),
    Row(
        "properties of a second GPU",
        "torch.cuda.get_device_properties(1)",
        "AssertionError",
        always("Invalid device id"),
        "torch/cuda/__init__.py",
    ),
]
