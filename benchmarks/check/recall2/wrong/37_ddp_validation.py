import torch
import torch.distributed as dist
import torch.nn.functional as F


@torch.no_grad()
def evaluate(model, loader, device):
    """Each rank sees its own shard of the validation set."""
    model.eval()
    stats = torch.zeros(3, device=device, dtype=torch.float64)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(x)
        stats[0] += F.cross_entropy(logits.float(), y, reduction="sum")
        stats[1] += (logits.argmax(dim=1) == y).sum()
        stats[2] += y.numel()

    if dist.get_rank() == 0:
        dist.all_reduce(stats)
        loss_sum, correct, count = stats.tolist()
        print(f"val loss {loss_sum / count:.4f} acc {correct / count:.4f} (n={int(count)})")


def train(ddp, train_loader, val_loader, sampler, optimizer, device, epochs):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        ddp.train()
        for x, y in train_loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
        evaluate(ddp.module, val_loader, device)
