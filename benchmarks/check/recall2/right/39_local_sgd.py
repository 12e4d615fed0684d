import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


def average_parameters(model):
    works = [
        dist.all_reduce(p.detach(), op=dist.ReduceOp.AVG, async_op=True)
        for p in model.parameters()
    ]
    for work in works:
        work.wait()


def endless(loader):
    while True:
        yield from loader


def worker(make_model, make_loader, total_steps=20000, sync_every=16):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    model = make_model().to(device)
    average_parameters(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = make_loader(dist.get_rank(), dist.get_world_size())

    model.train()
    for step, (x, y) in zip(range(1, total_steps + 1), endless(loader)):
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if step % sync_every == 0:
            average_parameters(model)
        if step % 1000 == 0 and dist.get_rank() == 0:
            print(f"step {step} local loss {loss.item():.4f}")

    average_parameters(model)
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "local_sgd.pt")
    dist.destroy_process_group()
