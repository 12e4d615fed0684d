import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from tagger import NewsDataset, TextCNN, pad_collate


def train(model, loader, optimizer, device, epochs):
    criterion = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        model.train()
        total_loss = torch.zeros((), device=device)
        for text, label in loader:
            text = text.to(device, non_blocking=True)
            label = label.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                output = model(text)
                loss = criterion(output, label)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss.detach()
        print(f"Epoch: {epoch + 1:02} | Train Loss: {total_loss.item() / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-file", type=str, required=True)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=5e-4)
    opt = parser.parse_args()

    device = torch.device("cuda")
    train_data = NewsDataset(opt.train_file)
    train_loader = DataLoader(
        train_data, batch_size=opt.batch_size, shuffle=True, collate_fn=pad_collate,
        num_workers=4, pin_memory=True, persistent_workers=True,
    )
    net = TextCNN(train_data.vocab_size, n_classes=train_data.n_classes).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=opt.lr, fused=True)
    train(net, train_loader, adam, device, opt.epochs)
    torch.save(net.state_dict(), "textcnn.pt")
