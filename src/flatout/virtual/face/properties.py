"""What ``torch.cuda.get_device_properties`` returns."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from flatout.virtual.kernels import target

if TYPE_CHECKING:
    from flatout.gpu import GPU

# Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability": resident threads and
# shared memory (KiB) of a multiprocessor, and shared memory that one block may opt in to (KiB).
_BY_CAPABILITY = {
    (5, 0): (2048, 64, 48),
    (5, 2): (2048, 96, 48),
    (6, 0): (2048, 64, 48),
    (6, 1): (2048, 96, 48),
    (7, 0): (2048, 96, 96),
    (7, 5): (1024, 64, 64),
    (8, 0): (2048, 164, 163),
    (8, 6): (1536, 100, 99),
    (8, 7): (1536, 164, 163),
    (8, 9): (1536, 100, 99),
    (9, 0): (2048, 228, 227),
    (10, 0): (2048, 228, 227),
    (10, 3): (2048, 228, 227),
    (11, 0): (1536, 228, 227),
    (12, 0): (1536, 100, 99),
    (12, 1): (1536, 100, 99),
}
_KIB = 1024


class _CudaDeviceProperties:
    """A look-alike of PyTorch's own class: the same fields, sizes in bytes."""

    def __init__(self, gpu: GPU, number: int) -> None:
        self.name = gpu.name
        self.major, self.minor = gpu.compute_capability
        self.total_memory = gpu.usable_bytes
        self.multi_processor_count = gpu.multiprocessors
        threads, shared, block = _BY_CAPABILITY.get(gpu.compute_capability, (2048, 64, 48))
        self.max_threads_per_multi_processor = threads
        self.max_threads_per_block = 1024
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 * _KIB
        self.shared_memory_per_block_optin = block * _KIB
        self.shared_memory_per_multiprocessor = shared * _KIB
        self.warp_size = 32
        self.is_integrated = False
        self.is_multi_gpu_board = False
        self.L2_cache_size = gpu.l2_bytes or 0
        self.clock_rate = int((gpu.boost_hz or 0) / 1000)  # kHz
        self.memory_clock_rate = 0
        self.memory_bus_width = 0
        self.pci_bus_id = number + 1
        self.pci_device_id = 0
        self.pci_domain_id = 0
        # A name-based identifier: the same GPU in the same slot has the same one in every run.
        self.uuid = uuid.uuid5(uuid.NAMESPACE_OID, f"flatout/{gpu.name}/{number}")
        self.gcnArchName = f"{self.major}.{self.minor}"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (_KIB * _KIB)}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // (_KIB * _KIB)}MB)"
        )


_CudaDeviceProperties.__module__ = "torch.cuda"
_made: dict[tuple[Any, int], Any] = {}


def device_properties(gpu: GPU, number: int) -> Any:
    """The properties of a GPU; the same object each time."""
    key = (gpu.label, number)
    if key not in _made:
        _made[key] = _CudaDeviceProperties(gpu, number)
    return _made[key]


def compiled_architectures(gpu: GPU) -> str:
    """What ``torch.cuda.get_arch_list`` says: the architectures of PyTorch's published builds, and the GPU's own.

    Source: TORCH_CUDA_ARCH_LIST of pytorch/pytorch .ci/manywheel/build_cuda.sh.
    """
    own = "sm_{}{}".format(*gpu.compute_capability)
    published = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    names = published if own[:-1] in {name[:-1] for name in published} else [own, *published]
    return " ".join(names)


def cuda_version() -> str:
    """The CUDA version that this PyTorch's default build ships with.

    Source: PyTorch's release compatibility matrix (RELEASE.md).
    """
    return "{}.{}".format(*target.cuda_version())
