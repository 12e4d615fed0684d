import torch
import torch.nn.functional as F


class AmpTrainer(object):
    def __init__(self, model, lr):
        self.model = model.cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=True)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            out = self.model(x)
            loss = F.cross_entropy(out, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def fit(self, loader, epochs):
        self.model.train()
        for _ in range(epochs):
            for x, y in loader:
                self.step(x.cuda(non_blocking=True), y.cuda(non_blocking=True))
