import torch
import torch.distributed as dist


@torch.no_grad()
def evaluate(ddp_model, loader, rank, epoch):
    ddp_model.eval()
    stats = torch.zeros(2, device=f"cuda:{rank}")
    for x, y in loader:
        x = x.to(rank, non_blocking=True)
        y = y.to(rank, non_blocking=True)
        stats[0] += (ddp_model.module(x).argmax(-1) == y).sum()
        stats[1] += y.numel()
    if rank == 0:
        dist.all_reduce(stats)
        print(f"epoch {epoch}: acc {(stats[0] / stats[1]).item():.4f}")
