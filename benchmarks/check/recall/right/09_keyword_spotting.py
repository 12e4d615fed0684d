import torch
from torch import nn, optim
from torch.utils.data import DataLoader

from kws.dataset import SpeechCommands
from kws.models import TCResNet

cfg = dict(root="data/speech_commands", epochs=40, bs=256, lr=1e-3, workers=6)


def run():
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(42)
    loader = DataLoader(SpeechCommands(cfg["root"], "train"), batch_size=cfg["bs"], shuffle=True,
                        num_workers=cfg["workers"], persistent_workers=True, drop_last=True,
                        pin_memory=True)
    net = TCResNet(n_classes=35).cuda()
    opt = optim.AdamW(net.parameters(), lr=cfg["lr"], fused=True)
    ce = nn.CrossEntropyLoss(label_smoothing=0.1)

    for ep in range(cfg["epochs"]):
        net.train()
        hits = torch.zeros((), dtype=torch.long, device="cuda")
        seen = 0
        for mel, word in loader:
            mel, word = mel.cuda(non_blocking=True), word.cuda(non_blocking=True)
            logits = net(mel)
            loss = ce(logits, word)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (logits.argmax(dim=1) == word).sum()
            seen += word.numel()
        print(f"epoch {ep:02d} train acc {hits.item() / seen:.3f}")
    torch.save(net.state_dict(), "tcresnet.pt")


if __name__ == "__main__":
    run()
