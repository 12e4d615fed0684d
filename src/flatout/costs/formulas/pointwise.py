"""Element by element: each input read once, each output written once, in place or not."""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.formulas.shared import streaming
from flatout.costs.table import formula
from flatout.recording.operation import Operation

_NAMES = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "atan2", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "complex", "copysign", "cos",
    "cosh", "div", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod",
    "frac", "ge", "gelu", "glu", "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "heaviside",
    "isfinite", "isinf", "isnan", "isneginf", "isposinf", "le", "leaky_relu", "lerp", "log", "log10", "log1p", "log2",
    "log_sigmoid_forward", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt",
    "masked_fill", "maximum", "minimum", "mish", "mul", "mvlgamma", "nan_to_num", "ne", "neg", "pow", "reciprocal",
    "relu", "relu6", "remainder", "round", "rsqrt", "rsub", "sgn", "sigmoid", "sign", "sign_bit", "silu", "sin",
    "sinh", "softplus", "softshrink", "sqrt", "square", "sub", "tan", "tanh", "threshold", "tril", "triu", "trunc",
    "where", "xlogy", "batch_norm_elemt", "batch_norm_backward_elemt",
)  # fmt: skip
_IN_PLACE_TOO = frozenset(_NAMES) - {"batch_norm_elemt", "batch_norm_backward_elemt", "complex"}
_BACKWARD = (
    "elu_backward", "gelu_backward", "glu_backward", "hardsigmoid_backward", "hardswish_backward", "hardtanh_backward",
    "leaky_relu_backward", "log_sigmoid_backward", "logit_backward", "mish_backward", "mse_loss_backward",
    "native_dropout_backward", "sigmoid_backward", "silu_backward", "smooth_l1_loss_backward", "huber_loss_backward",
    "softplus_backward", "tanh_backward", "threshold_backward", "hardshrink_backward", "softshrink_backward",
    "binary_cross_entropy_backward",
)  # fmt: skip


@formula(*_NAMES, *(f"{name}_" for name in sorted(_IN_PLACE_TOO)), *_BACKWARD, "_amp_update_scale_")
def pointwise(operation: Operation) -> tuple[Kernel, ...]:
    return (streaming(operation),)


@formula("native_dropout", "_fused_dropout", "rrelu_with_noise")
def dropout(operation: Operation) -> tuple[Kernel, ...]:
    """Random numbers are made in registers; the mask of one byte an element is written."""
    return (streaming(operation, "random"),)


@formula("fill_", "zero_", "fill", "arange", "linspace", "logspace", "eye", "tril_indices", "triu_indices")
def fill(operation: Operation) -> tuple[Kernel, ...]:
    return (streaming(operation, "fill", reads_target=False),)


@formula(
    "random_", "normal_", "uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_", "randperm"
)
def random_numbers(operation: Operation) -> tuple[Kernel, ...]:
    return (streaming(operation, "random", reads_target=False),)
