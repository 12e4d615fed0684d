import torch


class Evaluator:
    def __init__(self, model, device):
        self.model = model
        self.device = device

    @torch.inference_mode()
    def predict(self, loader):
        self.model.eval()
        probs = torch.empty(0, self.model.num_classes, device=self.device)
        for batch in loader:
            logits = self.model(batch.to(self.device, non_blocking=True))
            probs = torch.cat([probs, logits.softmax(dim=-1)], dim=0)
        return probs.cpu()
