"""What `torch.cuda` and `torch.accelerator` answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

pytestmark = pytest.mark.usefixtures("machine")


def test_there_is_one_gpu() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    assert torch.cuda.get_device_name() == "NVIDIA A100-SXM4-40GB"
    assert torch.cuda.get_device_capability(0) == (8, 0)
    assert torch.version.cuda is not None
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() >= 90000
    assert torch.backends.cuda.is_built()
    assert torch.cuda.is_bf16_supported()
    assert "sm_80" in torch.cuda.get_arch_list()


def test_properties_have_the_fields_of_a_real_device() -> None:
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.multi_processor_count == 108
    assert properties.total_memory == torch.cuda.mem_get_info()[1]
    assert properties.warp_size == 32
    assert properties.max_threads_per_multi_processor == 2048
    assert properties.shared_memory_per_block_optin == 163 * 1024
    assert "NVIDIA A100" in repr(properties)


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(1, device="cuda:1"),
        lambda: torch.ones(1).to("cuda:1"),
        lambda: torch.ones(1).cuda(1),
        lambda: torch.cuda.set_device(1),
        lambda: torch.tensor([1.0], device="cuda:1"),
    ],
)
def test_a_second_gpu_is_an_invalid_ordinal(use: object) -> None:
    with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
        use()


def test_properties_of_a_second_gpu_are_refused_as_pytorch_refuses_them() -> None:
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(1)


def test_memory_is_counted() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 << 20
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    assert any(s["allocated_size"] for s in torch.cuda.memory_snapshot())
    assert "CUDA memory summary" in torch.cuda.memory_summary()
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()


def test_resetting_peaks_leaves_the_report_its_own(machine: Machine) -> None:
    x = torch.empty(8 << 20, device="cuda")
    peak = machine.gpus[0].memory.peak().allocated_bytes
    del x
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
    assert machine.gpus[0].memory.peak().allocated_bytes == peak


def test_raw_allocations() -> None:
    before = torch.cuda.memory_allocated()
    pointer = torch.cuda.caching_allocator_alloc(1024)
    assert torch.cuda.memory_allocated() == before + 1024
    torch.cuda.caching_allocator_delete(pointer)
    assert torch.cuda.memory_allocated() == before


def test_sync_debug_mode_raises_cudas_text() -> None:
    x = torch.ones((), device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.item()
        torch.cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            x.item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.get_sync_debug_mode() == 0


def test_accelerator() -> None:
    accelerator = torch.accelerator
    assert accelerator.current_accelerator() == torch.device("cuda")
    assert accelerator.is_available()
    assert accelerator.device_count() == 1
    accelerator.synchronize()


def test_other_questions() -> None:
    torch.cuda.nvtx.range_push("x")
    torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    assert "no processes" in torch.cuda.list_gpu_processes()
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.memory._snapshot()["segments"] is not None
    with pytest.raises(ModuleNotFoundError, match="does not seem to be installed"):
        torch.cuda.utilization()
