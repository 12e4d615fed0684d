from __future__ import annotations

import pytest

from flatout.virtual.allocator import AllocatorConfiguration
from flatout.virtual.allocator.sizes import MIB

parse = AllocatorConfiguration.parse


def test_nothing_said_means_pytorchs_defaults() -> None:
    assert parse("") == AllocatorConfiguration.from_environment({}) == AllocatorConfiguration()


def test_all_keys_of_the_device_side() -> None:
    configuration = parse(
        " max_split_size_mb : 128, garbage_collection_threshold:0.8,expandable_segments:True,"
        "max_non_split_rounding_mb:30,large_segment_size_mb:64,per_process_memory_fraction:0.5,backend:native,"
    )
    assert configuration == AllocatorConfiguration(
        max_split_size_bytes=128 * MIB,
        garbage_collection_threshold=0.8,
        expandable_segments=True,
        max_non_split_rounding_bytes=30 * MIB,
        large_segment_size_bytes=64 * MIB,
        per_process_memory_fraction=0.5,
    )


@pytest.mark.parametrize(
    "text",
    [
        "pinned_use_background_threads:True",
        "pinned_num_register_threads:8",
        "pinned_use_cuda_host_register:True",
        "pinned_reserve_segment_size_mb:512",
        "release_lock_on_cudamalloc:False",
        "graph_capture_record_stream_reuse:True",
        "throw_on_cudamalloc_oom:True",
    ],
)
def test_settings_of_host_memory_change_nothing(text: str) -> None:
    assert parse(text) == AllocatorConfiguration()


def test_one_number_of_divisions_for_all_sizes() -> None:
    assert parse("roundup_power2_divisions:4").roundup_power2_divisions == (4,) * 16


def test_divisions_by_size() -> None:
    table = parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").roundup_power2_divisions
    assert table == (1,) * 9 + (2,) + (8,) * 6, "'>' begins at the last size named, as it does in PyTorch"
    assert parse("roundup_power2_divisions:[4:2]").roundup_power2_divisions == (2, 2, 2, *(0,) * 13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_split_size_mb:19", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
        ("max_split_size_mb:x", "stoull"),
        ("max_split_size_mb", "Index out of bounds in ConfigTokenizer"),
        ("expandable_segments:true", "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"),
        ("garbage_collection_threshold:1", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
        ("large_segment_size_mb:10", "CachingAllocator option large_segment_size_mb must be > 10 MB"),
        ("roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2 "),
        ("roundup_power2_divisions:[3:1]", "For roundups, the intervals have to be power of 2 "),
        ("roundup_power2_divisions:[4:1", "Index out of bounds in ConfigTokenizer"),
        ("backend:other", "Unknown allocator backend, options are native and cudaMallocAsync"),
        ("pinned_num_register_threads:3", "Number of register threads has to be power of 2, got 3"),
    ],
)
def test_errors_are_pytorchs(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        parse(text)
    assert str(raised.value) == message


def test_an_unknown_key_is_refused_in_the_installed_pytorchs_words() -> None:
    # The name of the configuration changed in 2.14.
    with pytest.raises(ValueError, match=r"^Unrecognized key 'foo' in (CUDA|Accelerator) allocator config\.$"):
        parse("foo:1")


def test_the_name_with_cuda_wins() -> None:
    environment = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:30", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:40"}
    assert AllocatorConfiguration.from_environment(environment).max_split_size_bytes == 40 * MIB
    del environment["PYTORCH_CUDA_ALLOC_CONF"]
    assert AllocatorConfiguration.from_environment(environment).max_split_size_bytes == 30 * MIB


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:10",
        "max_split_size_mb:-5",
        "max_split_size_mb:20.7",
        "max_split_size_mb:",
        "expandable_segments:True,,",
        "expandable_segments True",
        ",",
        "[",
        "garbage_collection_threshold:0",
        "roundup_power2_divisions:[256]",
        "roundup_power2_divisions:[0:2]",
        "roundup_power2_divisions:[]",
        "roundup_power2_divisions:[>:4,512:2]",
        "max_non_split_rounding_mb:10",
        "large_segment_size_mb:0",
        "large_segment_size_mb:21",
    ],
)
def test_the_installed_pytorch_agrees(text: str) -> None:
    import torch

    apply = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if apply is None or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("this PyTorch has another parser of allocator settings")
    answers = []
    for reader in (apply, parse):
        try:
            reader(text)
            answers.append("accepted")
        except (ValueError, RuntimeError, IndexError) as error:
            answers.append(str(error))
    apply("")
    assert answers[1] in answers[0]
