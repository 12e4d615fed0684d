import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from spk.data import VoxCelebCrops
from spk.ecapa import EcapaTDNN


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--list", required=True, help="train list, one 'speaker path' per line")
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--lr", type=float, default=1e-3)
    return p.parse_args()


def main():
    args = get_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    train_set = VoxCelebCrops(args.list, seconds=2.0)
    train_loader = DataLoader(
        train_set,
        batch_size=args.batch,
        shuffle=True,
        num_workers=12,
        pin_memory=True,
        drop_last=True,
    )
    model = EcapaTDNN(n_speakers=train_set.n_speakers).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=2e-5, foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.97)

    for epoch in range(args.epochs):
        model.train()
        loss_sum = torch.zeros((), device="cuda")
        for wav, speaker in train_loader:
            wav = wav.cuda(non_blocking=True)
            speaker = speaker.cuda(non_blocking=True)
            loss = F.cross_entropy(model(wav), speaker)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
        scheduler.step()
        print(f"epoch {epoch:3d} loss {loss_sum.item() / len(train_loader):.4f}")
        torch.save(model.state_dict(), "ecapa_last.pt")


if __name__ == "__main__":
    main()
