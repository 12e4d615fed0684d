"""What ``torch.cuda.get_device_properties`` returns."""

from __future__ import annotations

import sys
import uuid
from types import FrameType
from typing import TYPE_CHECKING, Any

from flatout.virtual import machine as machines
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
_OF_A_CAPABILITY = frozenset(
    (
        "major",
        "minor",
        "gcnArchName",
        *(f"shared_memory_per_{one}" for one in ("block_optin", "multiprocessor")),
        "max_threads_per_multi_processor",
    )
)
_OF_A_GPU = {"name": "name", "total_memory": "memory", "multi_processor_count": "multiprocessors"}


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
        self.gcnArchName = "{}.{}".format(*gpu.compute_capability)

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_A_CAPABILITY:
            _asked_for_capability(name)
        elif name in _OF_A_GPU:
            _asked_for(_OF_A_GPU[name])
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        own = vars(self)  # read by people, and by nothing that decides
        return (
            f"_CudaDeviceProperties(name='{own['name']}', major={own['major']}, minor={own['minor']}, "
            f"total_memory={own['total_memory'] // (_KIB * _KIB)}MB, "
            f"multi_processor_count={own['multi_processor_count']}, uuid={own['uuid']}, "
            f"pci_bus_id={own['pci_bus_id']}, pci_device_id={own['pci_device_id']}, "
            f"pci_domain_id={own['pci_domain_id']}, L2_cache_size={own['L2_cache_size'] // (_KIB * _KIB)}MB)"
        )


_CudaDeviceProperties.__module__ = "torch.cuda"
_made: dict[tuple[Any, int], Any] = {}


def _asked_for_capability(name: str) -> None:
    """The script may go by it: only GPUs that answer the same take the same path for certain."""
    alike = machines.current().alike
    if alike.others and not _pytorch_checks_itself():
        place = {"major": 0, "minor": 1}.get(name)
        target.decided(None, lambda capability: capability if place is None else (capability[place],))


def _asked_for(what: str) -> None:
    """Each GPU answers otherwise, and scripts mostly print it: one run cannot stand for others without saying so."""
    machine = machines.current()
    if machine.alike.others and not _pytorch_checks_itself():
        machine.assume_that(f"what hangs on the GPU's {what} is as on the GPU that the script ran on")


def _pytorch_checks_itself() -> bool:
    """When CUDA starts, PyTorch asks whether it was built for the GPU; nothing else hangs on that."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_globals.get("__name__") == "torch.cuda":
        if frame.f_code.co_name == "_lazy_init":
            return True
        frame = frame.f_back
    return False


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
