import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchmetrics.classification import MulticlassAccuracy

from esc50 import ESC50
from passt import PaSSTSmall


def main():
    torch.manual_seed(7)
    device = torch.device("cuda")
    loader = DataLoader(ESC50("data/esc50", folds=(1, 2, 3, 4)), batch_size=32, shuffle=True,
                        num_workers=8, pin_memory=True, persistent_workers=True)
    model = PaSSTSmall(num_classes=50).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=1e-4, fused=True)
    accuracy = MulticlassAccuracy(num_classes=50, validate_args=False).to(device)

    losses = []
    for epoch in range(50):
        model.train()
        for mel, label in loader:
            mel = mel.to(device, non_blocking=True)
            label = label.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(mel)
                loss = F.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            losses.append(loss)
            accuracy.update(logits.detach(), label)

        mean_loss = torch.stack(losses[-len(loader):]).mean().item()
        print(f"epoch {epoch}: loss {mean_loss:.4f}, acc {accuracy.compute().item():.4f}")
        torch.save(model.state_dict(), "passt_esc50.pt")


if __name__ == "__main__":
    main()
