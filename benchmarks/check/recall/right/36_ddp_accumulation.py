import os
from contextlib import nullcontext
from itertools import islice

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from llama_small import Llama, packed_loader


def setup():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group(backend="nccl", device_id=device)
    return device


def main(max_steps=20_000, accum=8, log_every=20):
    device = setup()
    rank, world_size = dist.get_rank(), dist.get_world_size()

    model = Llama(dim=1024, layers=16, heads=16).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    batches = iter(packed_loader("shards/", rank, world_size, micro_batch=4, infinite=True))

    model.train()
    for step in range(max_steps):
        optimizer.zero_grad()
        step_loss = torch.zeros((), device=device)
        for micro, (tokens, labels) in enumerate(islice(batches, accum)):
            tokens = tokens.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with model.no_sync() if micro < accum - 1 else nullcontext():
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(tokens, labels) / accum
                loss.backward()
            step_loss += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        if step % log_every == 0:
            dist.all_reduce(step_loss, op=dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step} loss {step_loss.item():.4f}", flush=True)

    if rank == 0:
        torch.save(model.module.state_dict(), "llama_small.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
