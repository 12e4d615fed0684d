import torch
import torch.distributed as dist
from torch import nn


class Engine:
    def __init__(self, ddp_model, optimizer, loader, sampler, device):
        self.model = ddp_model
        self.optimizer = optimizer
        self.loader = loader
        self.sampler = sampler
        self.device = device
        self.rank = dist.get_rank()
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        self.model.train()
        total = torch.zeros((), device=self.device)
        for images, labels in self.loader:
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

            total += loss.detach()

        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        mean = total.item() / len(self.loader)
        if self.rank == 0:
            print(f"epoch {epoch}: loss {mean:.4f}")
            torch.save(self.model.module.state_dict(), f"epoch_{epoch}.pt")
        return mean
