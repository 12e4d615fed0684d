import torch

# %% cell 4
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.hub.load("pytorch/vision", "mobilenet_v3_small", weights="DEFAULT")
model.to(device)
model.eval()


# %% cell 5
def accuracy(model, val_loader):
    hits = torch.zeros((), dtype=torch.long, device=device)
    seen = 0
    with torch.no_grad():
        for x, y in val_loader:
            x = x.to(device)
            y = y.to(device)
            hits += (model(x).argmax(1) == y).sum()
            seen += y.numel()
    return hits.item() / seen
