"""Convolutions by cuDNN, seen as matrix products over unfolded images (which are never written).

Forward: (pixels x inputs*window) (inputs*window x outputs) for each group. The gradient of the input swaps inputs and
outputs, that of the weight sums over pixels. Tensor cores want channels innermost: where images are not laid out so,
cuDNN turns input and output around with kernels of its own. One filter per channel (depthwise) has no product to speak
of and runs on ordinary cores.

FLOPs as ``torch.utils.flop_counter`` counts them.
"""

from __future__ import annotations

from math import prod

from flatout.costs.cost import ALIGNMENT_BYTES, TENSOR_CORES, Kernel, Product
from flatout.costs.formulas.shared import alignment_bytes, product_datapath
from flatout.costs.table import formula
from flatout.recording.operation import Operation, TensorType

HALF_BYTES = 2
"""Convolutions on tensor cores are in half precision, or in TF32, whose channels want the same multiples of 8."""

MANY_GROUPS = 32
"""From that many groups on, with as many outputs as inputs and a multiple of 4 in each group, cuDNN's channels-last
kernels for groups are fast; else they are far slower than NCHW's. Nothing documents it: it is what timm's two tables
show (ResNeXt 32x4d gains from channels-last; NFNets, and ResNeXt with 16 channels a group, lose by up to two and a
half)."""


class Geometry:
    """The sizes of one convolution, whichever of its three kernels is asked for."""

    def __init__(self, operation: Operation, x: TensorType, weight: TensorType, y: TensorType, first: int) -> None:
        self.transposed = operation.argument(first + 3, False) is True
        groups = operation.argument(first + 5, 1)
        self.groups = groups if isinstance(groups, int) else 1
        self.stride = prod(operation.numbers(first)) if not self.transposed else 1
        self.window = prod(weight.shape[2:])
        self.batch = x.shape[0]
        # A transposed convolution is the gradient of one that goes from its output to its input.
        small = x if self.transposed else y
        self.pixels = prod(small.shape[2:])
        self.wide_pixels = prod((y if self.transposed else x).shape[2:])
        self.inputs = weight.shape[0] if self.transposed else weight.shape[1] * self.groups
        self.outputs = weight.shape[1] * self.groups if self.transposed else weight.shape[0]
        self.flops = 2 * self.batch * self.pixels * weight.shape[0] * weight.shape[1] * self.window
        self.datapath = product_datapath(x.dtype, operation.tf32)
        self.nhwc = x.channels_last or weight.channels_last
        self.depthwise = self.groups > 1 and weight.shape[1] == 1 and not self.transposed

    @property
    def kind(self) -> str:
        """Depthwise, grouped, 1x1 or larger windows: each has kernels of its own."""
        if self.depthwise:
            return "depthwise_nhwc" if self.nhwc else "depthwise_nchw"
        if self.groups > 1:
            whole = self.inputs // self.groups % 4 == 0
            fast = self.groups >= MANY_GROUPS and self.inputs == self.outputs and whole
            return "convolution_grouped_few" if self.nhwc and not fast else "convolution_grouped"
        return "convolution_1x1" if self.window == 1 else "convolution"

    def forward(self) -> Product:
        ins, outs = self.inputs // self.groups, self.outputs // self.groups
        pixels = self.batch * self.pixels
        if self.transposed:
            return Product(self.groups, pixels, outs * self.window, ins)
        return Product(self.groups, pixels, outs, ins * self.window)

    def input_gradient(self) -> Product:
        ins, outs = self.inputs // self.groups, self.outputs // self.groups
        if self.transposed:
            return Product(self.groups, self.batch * self.pixels, ins, outs * self.window)
        depth = max(outs * self.window // max(self.stride, 1), outs)
        return Product(self.groups, self.batch * self.wide_pixels, ins, depth)

    def weight_gradient(self) -> Product:
        ins, outs = self.inputs // self.groups, self.outputs // self.groups
        rows, columns = (ins, outs) if self.transposed else (outs, ins)
        return Product(self.groups, rows, columns * self.window, self.batch * self.pixels)

    def kernel(self, product: Product, read: int, written: int) -> Kernel:
        """One of the three kernels."""
        if self.depthwise:
            return Kernel(self.kind, self.flops, read, written, "fp32")
        narrow = min(self.inputs, self.outputs) // self.groups
        whole = self.datapath not in TENSOR_CORES
        alignment = ALIGNMENT_BYTES if whole else alignment_bytes(narrow * HALF_BYTES)
        return Kernel(self.kind, self.flops, read, written, self.datapath, product, alignment_bytes=alignment)

    def turning(self, *tensors: TensorType) -> tuple[Kernel, ...]:
        """The kernels that turn tensors around for tensor cores, where they are not channels-last."""
        if self.nhwc or self.depthwise or self.datapath not in TENSOR_CORES:
            return ()
        return tuple(
            Kernel(
                "convolution_turn",
                bytes_read=t.bytes,
                bytes_written=t.bytes,
                datapath=self.datapath,
                for_tensor_cores=True,
            )
            for t in tensors
        )


@formula("convolution", "_convolution", "convolution_overrideable")
def convolution(operation: Operation) -> tuple[Kernel, ...]:
    x, weight, y = operation.tensor(0), operation.tensor(1), operation.outputs[0]
    geometry = Geometry(operation, x, weight, y, 3)
    main = geometry.kernel(geometry.forward(), x.bytes + weight.bytes, y.bytes)
    bias = operation.argument(2)
    kernels = (*geometry.turning(x, y), main)
    if isinstance(bias, TensorType):
        kernels += (Kernel("pointwise", bytes_read=y.bytes + bias.bytes, bytes_written=y.bytes),)
    return kernels


@formula("cudnn_convolution", "cudnn_convolution_transpose")
def by_cudnn(operation: Operation) -> tuple[Kernel, ...]:
    """The overloads that name cuDNN have no bias, and their numbers in another order."""
    padding, *rest = operation.arguments[2:]
    transposed = operation.base.endswith("transpose")
    stride, dilation, groups = rest[1:4] if transposed else rest[:3]
    plain = Operation(
        "aten::convolution",
        (*operation.arguments[:2], None, stride, padding, dilation, transposed, (0,), groups),
        outputs=operation.outputs,
        tf32=operation.tf32,
    )
    return convolution(plain)


@formula("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(operation: Operation) -> tuple[Kernel, ...]:
    grad, x, weight = operation.tensor(0), operation.tensor(1), operation.tensor(2)
    geometry = Geometry(operation, x, weight, grad, 4)
    mask = operation.argument(10, (True, True, True))
    wanted = mask if isinstance(mask, tuple) else (True, True, True)
    kernels: tuple[Kernel, ...] = ()
    if wanted[0]:
        kernels += geometry.turning(grad, x)
        kernels += (geometry.kernel(geometry.input_gradient(), grad.bytes + weight.bytes, x.bytes),)
    if wanted[1]:
        kernels += geometry.turning(x) if wanted[0] else geometry.turning(grad, x)
        kernels += (geometry.kernel(geometry.weight_gradient(), grad.bytes + x.bytes, weight.bytes),)
    if wanted[2]:
        kernels += (Kernel("reduction", bytes_read=grad.bytes, bytes_written=grad.shape[1] * grad.item_bytes),)
    return kernels
