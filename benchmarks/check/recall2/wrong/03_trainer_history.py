import torch


class Trainer:
    def __init__(self, model, criterion, optimizer, device):
        self.model = model
        self.criterion = criterion
        self.optimizer = optimizer
        self.device = device
        self.history = []

    def _step(self, batch):
        src, tgt = (t.to(self.device, non_blocking=True) for t in batch)
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            logits = self.model(src, tgt[:, :-1])
            loss = self.criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            step_losses = []
            for batch in loader:
                loss = self._step(batch)
                step_losses.append(loss)
            mean = torch.stack(step_losses).mean().item()
            self.history.append(mean)
            print(f"epoch {epoch + 1:3d}  loss {mean:.4f}")

    def save(self, path):
        torch.save(self.model.state_dict(), path)
