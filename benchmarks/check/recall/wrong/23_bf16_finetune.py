import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader


def finetune(model, dataset, collate_fn, *, epochs=3, batch_size=16, lr=2e-5, max_norm=1.0, log_every=50):
    """Fine-tune a causal LM whose forward returns an object with .loss."""
    device = torch.device("cuda")
    model = model.to(device)
    loader = DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        collate_fn=collate_fn,
        num_workers=4,
        pin_memory=True,
        persistent_workers=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, fused=True)
    total_steps = epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=total_steps)
    scaler = torch.amp.GradScaler("cuda")

    model.train()
    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = model(**batch).loss
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if step % log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
    return model
