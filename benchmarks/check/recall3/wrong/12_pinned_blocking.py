import torch
from torch.utils.data import DataLoader


def make_loader(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=6,
                      pin_memory=True, persistent_workers=True)


def main(dataset, model, epochs=20):
    torch.set_float32_matmul_precision("high")
    loader = make_loader(dataset, 64)
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    bce = torch.nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for image, mask in loader:
            image = image.cuda()
            mask = mask.cuda()
            loss = bce(model(image), mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model, f"unet_{epoch:03d}.pt")
