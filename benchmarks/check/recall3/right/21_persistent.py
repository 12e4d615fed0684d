import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.set_float32_matmul_precision("high")


class SegTrainer:
    def __init__(self, model, train_set, val_set, epochs=200):
        self.model = model.cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=6e-5, fused=True)
        self.epochs = epochs
        kw = dict(num_workers=8, pin_memory=True, persistent_workers=True)
        self.train_loader = DataLoader(train_set, 16, shuffle=True, drop_last=True, **kw)
        self.val_loader = DataLoader(val_set, 16, **kw)

    def train(self):
        for epoch in range(self.epochs):
            self.model.train()
            for img, lab in self.train_loader:
                out = self.model(img.cuda(non_blocking=True))
                loss = F.cross_entropy(out, lab.cuda(non_blocking=True), ignore_index=255)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            print(epoch, self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        correct = torch.zeros(2, device="cuda")
        for img, lab in self.val_loader:
            lab = lab.cuda(non_blocking=True)
            pred = self.model(img.cuda(non_blocking=True)).argmax(1)
            valid = lab != 255
            correct += torch.stack([((pred == lab) & valid).sum(), valid.sum()])
        return (correct[0] / correct[1]).item()
