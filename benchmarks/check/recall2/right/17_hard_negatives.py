import torch
import torch.nn.functional as F


class TripletTrainer:
    def __init__(self, encoder, optimizer, device, margin=0.2):
        self.encoder = encoder
        self.optimizer = optimizer
        self.device = device
        self.margin = margin

    def hardest(self, sim):
        # most similar caption that is not the right one
        scores = sim.detach().clone()
        scores.fill_diagonal_(float("-inf"))
        return scores.argmax(dim=1)

    def run_epoch(self, loader):
        self.encoder.train()
        total = torch.zeros((), device=self.device)
        for image, caption in loader:
            image = image.to(self.device, non_blocking=True)
            caption = caption.to(self.device, non_blocking=True)

            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                zi, zt = self.encoder(image, caption)
            zi = F.normalize(zi.float(), dim=1)
            zt = F.normalize(zt.float(), dim=1)
            sim = zi @ zt.T
            neg = self.hardest(sim)
            pos_sim = sim.diagonal()
            neg_sim = sim.gather(1, neg.unsqueeze(1)).squeeze(1)
            loss = F.relu(self.margin - pos_sim + neg_sim).mean()

            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total.item() / len(loader)
