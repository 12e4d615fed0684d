import argparse
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from data import MelDataset
from model import Vocoder

parser = argparse.ArgumentParser(description="Train the vocoder on one card")
parser.add_argument("--gpu", type=int, default=0)
parser.add_argument("--mels", default="data/mels")
parser.add_argument("--epochs", type=int, default=200)


def main():
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    print("Found", torch.cuda.device_count(), "GPUs, first is", torch.cuda.get_device_name(0))
    os.environ["CUDA_VISIBLE_DEVICES"] = str(args.gpu)
    device = torch.device("cuda")

    loader = DataLoader(MelDataset(args.mels), batch_size=32, shuffle=True, num_workers=6,
                        pin_memory=True, persistent_workers=True, drop_last=True)
    net = Vocoder().to(device)
    optim = torch.optim.AdamW(net.parameters(), lr=2e-4, betas=(0.8, 0.99), fused=True)
    l1 = nn.L1Loss()

    for epoch in range(args.epochs):
        net.train()
        running = torch.zeros((), device=device)
        for mel, wav in loader:
            mel = mel.to(device, non_blocking=True)
            wav = wav.to(device, non_blocking=True)
            loss = l1(net(mel), wav)
            optim.zero_grad()
            loss.backward()
            optim.step()
            running += loss.detach()
        print(f"epoch {epoch + 1} l1 {running.item() / len(loader):.4f}")
    torch.save(net.state_dict(), "vocoder.pt")


if __name__ == "__main__":
    main()
