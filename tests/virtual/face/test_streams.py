"""Streams, events and graphs."""

from __future__ import annotations

import threading

import pytest
import torch

from flatout.virtual.tensor import allocation_of

pytestmark = pytest.mark.usefixtures("machine")


def test_streams_keep_their_memory_apart() -> None:
    side = torch.cuda.Stream()
    main = torch.cuda.current_stream()
    assert main.cuda_stream == 0
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        x = torch.ones(10, device="cuda")
    assert torch.cuda.current_stream() == main
    assert allocation_of(x).block.stream == side.stream_id
    x.record_stream(main)
    main.wait_stream(side)
    side.synchronize()
    assert side.query()
    assert isinstance(side, torch.Stream)
    assert isinstance(torch.Stream(device="cuda"), torch.cuda.Stream)


def test_each_thread_has_its_own_current_stream() -> None:
    seen: list[int] = []
    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream().cuda_stream))
        thread.start()
        thread.join()
    assert seen == [0]


def test_priorities() -> None:
    assert torch.cuda.Stream(priority=-1).priority == -1
    assert torch.cuda.Stream().priority == 0
    assert torch.cuda.Stream.priority_range() == (0, -5)


def test_events() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    torch.ones(3, device="cuda") * 2
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    assert end.query()
    assert isinstance(start, torch.Event)
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.cuda.Event().elapsed_time(end)


def test_a_graph_keeps_its_memory_until_it_is_gone() -> None:
    x = torch.randn(4, 8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2
    assert not torch.cuda.is_current_stream_capturing()
    graph.replay()
    assert y.shape == (4, 8)
    pool = graph.pool()
    assert any(segment["segment_pool_id"] == pool for segment in torch.cuda.memory_snapshot())
    del y
    graph.reset()
    torch.cuda.empty_cache()
    assert not any(segment["segment_pool_id"] == pool for segment in torch.cuda.memory_snapshot())


def test_graphed_callables() -> None:
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(torch.nn.Linear(8, 8).cuda(), (x,))
    graphed(x).sum().backward()
    assert x.grad is not None


def test_private_pools() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1000, device="cuda")
    assert [tuple(s["segment_pool_id"]) for s in torch.cuda.memory_snapshot() if s["address"] == x.data_ptr()] == [
        pool.id
    ]
