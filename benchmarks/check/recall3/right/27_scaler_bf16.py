import torch
from torch import nn

torch.set_float32_matmul_precision("high")


def train(model, loader, optimizer, epochs, device="cuda"):
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(epochs):
        model.train()
        for src, tgt in loader:
            src = src.to(device, non_blocking=True)
            tgt = tgt.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(src, tgt[:, :-1])
                loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} last loss {loss.item():.3f}")
