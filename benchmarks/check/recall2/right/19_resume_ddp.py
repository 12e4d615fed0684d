import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

CKPT = "checkpoints/last.pt"


def setup():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def save(model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(),
                    "optim": optimizer.state_dict(),
                    "epoch": epoch}, CKPT)


def resume(model, optimizer, device):
    if not os.path.exists(CKPT):
        return 0
    ckpt = torch.load(CKPT, map_location=device, weights_only=True)
    model.module.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optim"])
    return ckpt["epoch"] + 1


def train(build_model, build_loader, loss_fn, epochs):
    device = setup()
    model = DDP(build_model().to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    loader, sampler = build_loader(dist.get_rank(), dist.get_world_size())

    for epoch in range(resume(model, optimizer, device), epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        save(model, optimizer, epoch)
    dist.destroy_process_group()
