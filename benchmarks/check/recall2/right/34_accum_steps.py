from itertools import islice

import torch
from torch import nn


class Finetuner:
    """Single-GPU fine-tuning with a large effective batch."""

    def __init__(self, lm, loader, accum_steps=16, lr=1e-5):
        self.device = torch.device("cuda")
        self.lm = lm.to(self.device)
        self.loader = loader
        self.accum_steps = accum_steps
        self.optim = torch.optim.AdamW(self.lm.parameters(), lr=lr, fused=True)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=-100)

    def micro_batch(self, batch):
        ids = batch["input_ids"].to(self.device, non_blocking=True)
        labels = batch["labels"].to(self.device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.lm(ids)
            loss = self.loss_fn(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        (loss / self.accum_steps).backward()
        return loss.detach()

    def epoch(self):
        self.lm.train()
        self.optim.zero_grad()
        total = torch.zeros((), device=self.device)
        usable = len(self.loader) - len(self.loader) % self.accum_steps
        for i, batch in enumerate(islice(self.loader, usable)):
            total += self.micro_batch(batch)
            if (i + 1) % self.accum_steps == 0:
                nn.utils.clip_grad_norm_(self.lm.parameters(), 1.0)
                self.optim.step()
                self.optim.zero_grad()
        return total.item() / max(usable, 1)
