import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from trajnet import Scenes, TrajectoryNet

torch.manual_seed(1)
torch.set_float32_matmul_precision("high")


def run_epoch(model, loader, criterion, optimizer, device):
    model.train()
    total_loss = torch.zeros((), device=device)
    for history, lanes, future in loader:
        history = history.to(device, non_blocking=True)
        lanes = lanes.to(device, non_blocking=True)
        future = future.to(device, non_blocking=True)

        prediction = model(history, lanes)
        loss = criterion(prediction, future)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.detach()

    return (total_loss / len(loader)).item()


def main():
    device = torch.device("cuda")
    loader = DataLoader(Scenes("train"), batch_size=128, shuffle=True, num_workers=8,
                        pin_memory=True, persistent_workers=True, drop_last=True)
    model = TrajectoryNet(hidden=128, horizon=30).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 45], gamma=0.1)
    criterion = nn.SmoothL1Loss()
    for epoch in range(60):
        print("Epoch", epoch, "loss", run_epoch(model, loader, criterion, optimizer, device))
        scheduler.step()
    torch.save({"model": model.state_dict(), "epoch": 60}, "trajnet.pt")


if __name__ == "__main__":
    main()
