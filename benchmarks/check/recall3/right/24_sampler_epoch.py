import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def run(model, dataset, epochs):
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group(backend="nccl", device_id=torch.device("cuda", rank))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4,
                        pin_memory=True, persistent_workers=True)
    torch.set_float32_matmul_precision("high")
    ddp = DDP(model.to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(ddp.parameters(), lr=5e-4, fused=True)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(ddp(x.to(rank, non_blocking=True)),
                                                y.to(rank, non_blocking=True))
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} done, loss {loss.item():.4f}")
    dist.destroy_process_group()
