import torch
import torch.nn as nn


def train_epoch(model, loader, optimizer, criterion, device):
    model.train()
    for img, label in loader:
        img = img.to(device, non_blocking=True)
        label = label.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(img), label)
        loss.backward()
        optimizer.step()


@torch.inference_mode()
def validate(model, loader, device):
    model.eval()
    top1 = torch.zeros((), device=device, dtype=torch.long)
    top5 = torch.zeros((), device=device, dtype=torch.long)
    for img, label in loader:
        img = img.to(device, non_blocking=True)
        label = label.to(device, non_blocking=True)
        logits = model(img)
        hits = logits.topk(5, dim=1).indices == label.unsqueeze(1)
        top1 += hits[:, 0].sum()
        top5 += hits.sum()
    n = len(loader.dataset)
    return top1.item() / n, top5.item() / n


def run(model, train_loader, val_loader, device, epochs=30, lr=0.1):
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9,
                                weight_decay=5e-4)
    best = 0.0
    for epoch in range(epochs):
        train_epoch(model, train_loader, optimizer, criterion, device)
        acc, acc5 = validate(model, val_loader, device)
        print(f"{epoch:02d} top1={acc:.4f} top5={acc5:.4f}")
        if acc > best:
            best = acc
            torch.save(model.state_dict(), "best.pt")
    return best
