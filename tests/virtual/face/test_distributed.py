"""Several GPUs' interfaces on one GPU: DataParallel, comm, process groups of one rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn

from flatout.errors import UnsupportedError

pytestmark = [
    pytest.mark.usefixtures("machine"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no torch.distributed"),
]


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_data_parallel() -> None:
    model = nn.DataParallel(nn.Linear(8, 8).cuda())
    assert model(torch.randn(4, 8)).shape == (4, 8)
    with pytest.raises(AssertionError, match="Invalid device id"):
        nn.DataParallel(nn.Linear(8, 8).cuda(), device_ids=[0, 1])


def test_comm() -> None:
    import torch.cuda.comm as comm

    x = torch.arange(4, device="cuda")
    assert comm.broadcast(x, [0])[0].tolist() == [0, 1, 2, 3]
    assert comm.scatter(x, [0])[0].tolist() == [0, 1, 2, 3]
    assert comm.gather([x, x]).shape == (8,)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        comm.broadcast(x, [0, 1])


@pytest.mark.usefixtures("group")
def test_collectives_of_one_rank() -> None:
    x = torch.ones(4, device="cuda")
    assert dist.get_backend() == "nccl"
    assert dist.all_reduce(x, async_op=True).wait()
    dist.broadcast(x, 0)
    dist.barrier()
    gathered = [torch.zeros(4, device="cuda")]
    dist.all_gather(gathered, x)
    assert gathered[0].tolist() == [1, 1, 1, 1]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(2))


@pytest.mark.usefixtures("group")
def test_ddp_trains() -> None:
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(2, 4, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert len(optimizer.state) == 2


@pytest.mark.usefixtures("group")
def test_fsdp_trains() -> None:
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 8, device="cuda")).sum().backward()
    optimizer.step()


def test_larger_worlds_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"process group of 2 ranks .*--gpus is not supported yet"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=2)
