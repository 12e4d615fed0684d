import torch


class Trainer:
    def __init__(self, model, loss_fn, lr=1e-3, device="cuda", check_every=100):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=True)
        self.loss_fn = loss_fn
        self.check_every = check_every

    def run_epoch(self, loader):
        self.model.train()
        for step, (inputs, targets) in enumerate(loader):
            inputs = inputs.to(self.device, non_blocking=True)
            targets = targets.to(self.device, non_blocking=True)
            loss = self.loss_fn(self.model(inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % self.check_every == 0 and torch.isnan(loss):
                raise RuntimeError(f"loss is nan at step {step}")
