import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision.models import DenseNet121_Weights, densenet121

from xray import ChestXrays

NUM_FINDINGS = 14


def build_model():
    net = densenet121(weights=DenseNet121_Weights.DEFAULT)
    net.classifier = nn.Sequential(nn.Linear(net.classifier.in_features, NUM_FINDINGS), nn.Sigmoid())
    return net


def main():
    device = torch.device("cuda")
    torch.backends.cudnn.benchmark = True
    train_loader = DataLoader(
        ChestXrays("train.csv", size=224), batch_size=96, shuffle=True,
        num_workers=10, pin_memory=True, persistent_workers=True, drop_last=True,
    )
    model = build_model().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    criterion = nn.BCELoss()
    scaler = torch.amp.GradScaler("cuda")

    for epoch in range(10):
        model.train()
        running = torch.zeros((), device=device)
        for image, findings in train_loader:
            image = image.to(device, non_blocking=True, memory_format=torch.channels_last)
            findings = findings.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                probs = model(image)
                loss = criterion(probs, findings)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            running += loss.detach()
        print("epoch", epoch, "bce", running.item() / len(train_loader))
        torch.save(model.state_dict(), "densenet_last.pt")


if __name__ == "__main__":
    main()
