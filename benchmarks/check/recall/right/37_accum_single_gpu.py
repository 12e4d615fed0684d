from itertools import islice

import torch
from torch.utils.data import DataLoader


def train(model, dataset, *, epochs, micro_batch=4, accum_steps=8, lr=1e-5):
    """Full fine-tuning on one card; effective batch is micro_batch * accum_steps."""
    device = torch.device("cuda")
    model = model.to(device)
    loader = DataLoader(
        dataset,
        batch_size=micro_batch,
        shuffle=True,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0, fused=True)
    usable = len(loader) // accum_steps * accum_steps

    for epoch in range(epochs):
        model.train()
        epoch_loss = torch.zeros((), device=device)
        optimizer.zero_grad()
        for step, (input_ids, labels) in enumerate(islice(loader, usable)):
            input_ids = input_ids.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = model(input_ids, labels=labels).loss
            (loss / accum_steps).backward()
            epoch_loss += loss.detach()

            if (step + 1) % accum_steps == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

        print(f"epoch {epoch}: mean loss {epoch_loss.item() / usable:.4f}")
        torch.save(model.state_dict(), f"epoch{epoch}.pt")
