"""What a GPU is: one frozen record of its published and measured facts."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

ComputeCapability: TypeAlias = tuple[int, int]


class Source(msgspec.Struct, frozen=True):
    """Where a number comes from. `detail` is the place in that source: a card number, a PyTorch version."""

    key: str
    title: str
    url: str = ""
    detail: str = ""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Dense matrix rates in operations per second; an FMA counts as two.

    `None` means not known, or that there is no faster path than `fp32`. Sparsity is never counted. `fp16`, `bf16` and
    `fp8` are tensor-core rates *with FP32 accumulation*, which is what PyTorch uses; GeForce boards run that at half
    the rate of FP16 accumulation. `fp64` and `fp32` are the ordinary cores.
    """

    fp64: float | None = None
    fp64_tensor: float | None = None
    fp32: float
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    fp8: float | None = None
    int8: float | None = None


class GPU(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU model. `None` means "not known", never zero.

    `name` is what the driver and `torch.cuda.get_device_name` report; two memory sizes of a card may share it.
    `label` is the short name for people and is unique.
    """

    name: str
    label: str
    family: str
    """What has to be in a name that means this GPU or one of its variants, e.g. `a100` or `4070 ti`."""
    words: tuple[str, ...] = ()
    """Further words that people use for this variant, e.g. `sxm5`."""
    compute_capability: ComputeCapability
    multiprocessors: int
    boost_hz: float | None = None
    memory_bytes: int
    """Nominal memory: the marketed number of gigabytes x 2^30."""
    usable_bytes: int
    """What `cudaMemGetInfo` and PyTorch's `total_memory` report: less than nominal, and less with newer drivers."""
    usable_is_estimated: bool
    """True where no report of this model was found."""
    memory_bandwidth_bytes_per_second: float
    rates: Rates
    l2_bytes: int | None = None
    nvlink_bytes_per_second: float | None = None
    """NVLink of one GPU, all links, both directions together. `None`: no NVLink, or not known."""
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    tdp_watts: float | None = None
    context_bytes: int
    """Memory that the CUDA context takes outside PyTorch's allocator: an estimate (see `capability.CONTEXT_BYTES`)."""
    context_range_bytes: tuple[int, int]
    sources: tuple[tuple[str, Source], ...] = ()
    """Pairs (field, source); the field `default` holds for all that are not named."""

    def source(self, field: str) -> Source:
        """The source of a field of this GPU, or of the row's `default` source.

        Raises `KeyError` if the field has no source.
        """
        known = dict(self.sources)
        return known[field] if field in known else known["default"]
