"""What follows from the compute capability."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.gpu import limits, workspace_bytes
from flatout.gpu.capability import known_capabilities


@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9)])
def test_the_workspace_is_8_519_680_bytes_before_hopper(capability: tuple[int, int]) -> None:
    assert workspace_bytes(capability) == 8_519_680


@pytest.mark.parametrize("capability", [(9, 0), (10, 0), (12, 0)])
def test_the_workspace_is_32_mib_from_hopper_on(capability: tuple[int, int]) -> None:
    assert workspace_bytes(capability) == 32 * 1024**2


@pytest.mark.parametrize(
    ("config", "size_bytes"),
    [(":4096:8", 32 * 1024**2), (":16:8", 131_072), (":4096:2:16:8", 8_519_680), (":0:0", 0)],
)
def test_the_environment_variable_decides(config: str, size_bytes: int) -> None:
    assert workspace_bytes((9, 0), config) == size_bytes


@given(st.text(alphabet="abc ", max_size=8))
def test_a_setting_without_pairs_is_the_default(config: str) -> None:
    assert workspace_bytes((8, 0), config) == workspace_bytes((8, 0))


@pytest.mark.parametrize("capability", known_capabilities())
def test_a_block_never_gets_more_than_its_multiprocessor_has(capability: tuple[int, int]) -> None:
    found = limits(capability)
    assert found.shared_memory_per_block_optin_bytes <= found.shared_memory_per_multiprocessor_bytes


def test_limits_seen_in_profiler_traces() -> None:
    assert limits((8, 0)).shared_memory_per_multiprocessor_bytes == 167_936
    assert limits((8, 0)).shared_memory_per_block_optin_bytes == 166_912
    assert limits((7, 0)).shared_memory_per_multiprocessor_bytes == 98_304
    assert limits((7, 5)).max_threads_per_multiprocessor == 1024
    assert limits((12, 0)).shared_memory_per_multiprocessor_bytes == 102_400
