import torch


class Evaluator:
    def __init__(self, model, device):
        self.model = model
        self.device = device

    @torch.inference_mode()
    def predict(self, loader):
        self.model.eval()
        probs = []
        for batch in loader:
            logits = self.model(batch.to(self.device, non_blocking=True))
            probs.append(logits.softmax(dim=-1))
        return torch.cat(probs, dim=0).cpu()
