import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train_accum(net, loader, local_rank, lr, accum_steps=8):
    ddp_net = DDP(net.cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(ddp_net.parameters(), lr=lr, fused=True)
    ddp_net.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        x = x.cuda(local_rank, non_blocking=True)
        y = y.cuda(local_rank, non_blocking=True)
        last = (i + 1) % accum_steps == 0
        ctx = contextlib.nullcontext() if last else ddp_net.no_sync()
        with ctx:
            loss = torch.nn.functional.cross_entropy(ddp_net(x), y) / accum_steps
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
