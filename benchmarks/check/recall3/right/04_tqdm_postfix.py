import torch
from tqdm.auto import tqdm


def fit(model, train_loader, optimizer, scheduler, device, num_epochs=3, log_every=50):
    for epoch in range(num_epochs):
        model.train()
        bar = tqdm(train_loader, desc=f"epoch {epoch}")
        for step, batch in enumerate(bar):
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            outputs = model(**batch)
            loss = outputs.loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            if step % log_every == 0:
                bar.set_postfix(loss=f"{loss.item():.4f}")
