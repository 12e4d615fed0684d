import torch
import torch.nn.functional as F


def run_experiment(model, loader, cfg):
    device = torch.device(cfg["device"])
    model = model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["wd"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    log = []
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")

    for epoch in range(cfg["epochs"]):
        compiled.train()
        total = torch.zeros((), device=device)
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(compiled(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        sched.step()
        log.append(total.item() / len(loader))
        print(f"epoch {epoch:3d} train loss {log[-1]:.4f}")

    torch.save(model.state_dict(), cfg["out"])
    return log
