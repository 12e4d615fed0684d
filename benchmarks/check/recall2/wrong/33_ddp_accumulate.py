import os
from itertools import islice

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, sampler, epochs, accum=8, lr=3e-4):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local_rank}")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    model = DDP(model.to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    usable = len(loader) - len(loader) % accum

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, batch in enumerate(islice(loader, usable)):
            ids = batch["input_ids"].to(device, non_blocking=True)
            labels = batch["labels"].to(device, non_blocking=True)
            last = (i + 1) % accum == 0

            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(ids, labels) / accum
            loss.backward()

            if last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item() * accum:.4f}")
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "final.pt")
    dist.destroy_process_group()
