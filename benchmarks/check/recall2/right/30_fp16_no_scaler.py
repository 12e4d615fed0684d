import torch
from torch import nn


def finetune(backbone, head, loader, epochs=10, lr=5e-5):
    device = torch.device("cuda")
    backbone.to(device).train()
    head.to(device).train()
    params = list(backbone.parameters()) + list(head.parameters())
    optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lr, total_steps=epochs * len(loader)
    )
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            ids = batch["input_ids"].to(device, non_blocking=True)
            mask = batch["attention_mask"].to(device, non_blocking=True)
            labels = batch["labels"].to(device, non_blocking=True)

            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                hidden = backbone(ids, mask)
                loss = loss_fn(head(hidden[:, 0]), labels)

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            scheduler.step()

            if (step + 1) % 50 == 0:
                print(f"epoch {epoch} step {step + 1}/{len(loader)} loss {loss.item():.4f}")
    torch.save({"backbone": backbone.state_dict(), "head": head.state_dict()}, "tuned.pt")
