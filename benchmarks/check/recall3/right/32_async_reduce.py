import torch
import torch.distributed as dist


def sync_gradients(model, world_size):
    handles = []
    for p in model.parameters():
        if p.grad is None:
            continue
        handles.append(dist.all_reduce(p.grad, op=dist.ReduceOp.SUM, async_op=True))
    for h in handles:
        h.wait()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(world_size)


def train(model, loader, optimizer, loss_fn, device):
    world_size = dist.get_world_size()
    model.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        sync_gradients(model, world_size)
        optimizer.step()
