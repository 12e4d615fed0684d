import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from ctr import ClickLog, DLRM


def reduce_mean(tensor):
    tensor = tensor.detach().clone()
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor


def worker(epochs=3, log_every=100):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.set_float32_matmul_precision("high")

    data = ClickLog("criteo/day_0")
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    # an item of ClickLog is a block of 8192 rows
    loader = DataLoader(data, batch_size=None, sampler=sampler, num_workers=4,
                        pin_memory=True, persistent_workers=True)
    model = DDP(DLRM(dense=13, tables=26).to(device), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    model.train()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, (dense, sparse, click) in enumerate(loader):
            dense = dense.to(device, non_blocking=True)
            sparse = sparse.to(device, non_blocking=True)
            click = click.to(device, non_blocking=True)
            loss = F.binary_cross_entropy_with_logits(model(dense, sparse), click)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            if step % log_every == 0:
                mean_loss = reduce_mean(loss).item()
                if dist.get_rank() == 0:
                    print(f"{epoch}:{step} logloss {mean_loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    worker()
