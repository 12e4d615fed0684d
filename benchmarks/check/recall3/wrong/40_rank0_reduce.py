import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(ddp_model, loader, device, epoch):
    ddp_model.eval()
    stats = torch.zeros(2, device=device)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        stats[0] += (ddp_model.module(x).argmax(-1) == y).sum()
        stats[1] += y.numel()
    if dist.get_rank() == 0:
        dist.all_reduce(stats)
        print(f"epoch {epoch}: acc {(stats[0] / stats[1]).item():.4f}")
