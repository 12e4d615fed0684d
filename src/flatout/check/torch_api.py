"""What PyTorch's own calls give: which make tensors, and where; which are layers, optimizers, context managers."""

from __future__ import annotations

from flatout.check.words import words

# Tensors from nothing, or from Python values: on the CPU, or the default device, unless `device=` says otherwise.
FACTORIES = frozenset(
    f"torch.{name}"
    for name in words(
        "arange bartlett_window blackman_window empty empty_strided eye full hamming_window hann_window "
        "kaiser_window linspace logspace normal ones rand randint randn randperm range scalar_tensor tensor "
        "tril_indices triu_indices zeros complex polar asarray as_tensor sparse_coo_tensor"
    )
)
# Random ones, whose values depend on the device that they are drawn on.
RANDOM = frozenset(f"torch.{name}" for name in ("normal", "rand", "randint", "randn", "randperm"))
# Those that take Python or NumPy data.
FROM_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.scalar_tensor"})
ON_CPU = frozenset({"torch.from_numpy", "torch.frombuffer", "torch.from_file"})
OLD_CONSTRUCTORS = frozenset(
    f"torch.{name}"
    for name in words("Tensor FloatTensor LongTensor IntTensor DoubleTensor HalfTensor ByteTensor BoolTensor")
)
LIKE = frozenset(
    f"torch.{name}" for name in words("empty_like full_like ones_like rand_like randint_like randn_like zeros_like")
)

# Methods of a tensor whose result is no tensor.
NOT_TENSORS = {
    "item": "number",
    "tolist": "list",
    "numpy": "ndarray",
    "size": "size",
    "dim": "int",
    "numel": "int",
    "nelement": "int",
    "ndimension": "int",
    "stride": "size",
    "element_size": "int",
    "data_ptr": "int",
    "get_device": "int",
    "is_contiguous": "bool",
    "is_floating_point": "bool",
    "is_complex": "bool",
    "is_pinned": "bool",
    "requires_grad_": "Tensor",
    "backward": "None",
    "register_hook": "handle",
}
# Methods that tensors have and layers have not.
TENSOR_METHODS = frozenset(
    words(
        "abs add all allclose any argmax argmin clamp clone contiguous detach dim div eq exp expand flatten gather ge "
        "gt item le long log log_softmax lt matmul max mean min mm mul ne norm numel numpy permute pow prod reshape "
        "sigmoid size softmax sqrt squeeze std sub sum t tanh tolist topk transpose unsqueeze var view view_as"
    )
)

# Attributes of a tensor that are tensors.
TENSOR_ATTRIBUTES = frozenset(words("T mT H mH data grad real imag"))

# Functions of NumPy that surely give an array, whatever they are given; and methods of one that give another.
ARRAYS = frozenset(
    f"numpy.{name}"
    for name in words(
        "array asarray ascontiguousarray zeros ones empty full arange linspace eye identity zeros_like ones_like "
        "empty_like full_like stack vstack hstack dstack concatenate frombuffer fromfile loadtxt tile pad expand_dims "
        "reshape transpose atleast_1d atleast_2d"
    )
)
ARRAY_METHODS = frozenset(words("astype reshape copy transpose flatten ravel squeeze repeat swapaxes"))

DTYPES = {
    "half": "torch.float16",
    "float": "torch.float32",
    "double": "torch.float64",
    "bfloat16": "torch.bfloat16",
    "long": "torch.int64",
    "int": "torch.int32",
    "bool": "torch.bool",
}
DTYPE_NAMES = frozenset(
    f"torch.{name}"
    for name in words(
        "float float16 half bfloat16 float32 float64 double int8 uint8 int16 short int32 int int64 long bool "
        "complex64 complex128 float8_e4m3fn float8_e5m2 cfloat cdouble chalf uint16 uint32 uint64"
    )
)

# Second names of the same dtype.
DTYPE_ALIASES = {
    "torch.half": "torch.float16",
    "torch.float": "torch.float32",
    "torch.double": "torch.float64",
    "torch.short": "torch.int16",
    "torch.int": "torch.int32",
    "torch.long": "torch.int64",
}

# Functions of `torch` and `torch.nn.functional` whose result is no tensor; every other function of theirs gives one.
NO_TENSOR_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in words(
        "device dtype Size Generator manual_seed seed initial_seed is_tensor is_floating_point "
        "is_grad_enabled numel set_default_dtype set_default_device get_default_dtype set_grad_enabled "
        "no_grad enable_grad inference_mode load save compile set_float32_matmul_precision "
        "use_deterministic_algorithms set_num_threads get_num_threads is_storage is_complex typename finfo "
        "iinfo allclose equal get_rng_state set_rng_state jit fx hub export vmap set_printoptions "
        "set_num_interop_threads set_default_tensor_type result_type promote_types can_cast"
    )
)

GPU_DEVICES = frozenset({"cuda", "mps", "xpu", "hpu", "npu"})

DATA_PARALLEL = "torch.nn.DataParallel"
DISTRIBUTED_DATA_PARALLEL = "torch.nn.parallel.DistributedDataParallel"
LOADERS = frozenset({"torch.utils.data.DataLoader", "torchdata.stateful_dataloader.StatefulDataLoader"})
# The parameters of DataLoader that may be given by position (PyTorch 2.6 to 2.14).
LOADER_PARAMETERS = tuple(
    words(
        "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
        "worker_init_fn multiprocessing_context generator"
    )
)
SUBSETS = frozenset({"torch.utils.data.Subset", "torch.utils.data.random_split"})
SCALERS = frozenset({"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"})
AUTOCASTS = frozenset({"torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})
NO_GRADS = frozenset({"torch.no_grad", "torch.inference_mode"})
