import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader

from asr.conformer import Conformer
from asr.data import LibriDataset, pad_batch


class Recipe:
    def __init__(self, manifest, vocab_size, epochs=50):
        self.epochs = epochs
        self.model = Conformer(vocab_size).cuda()
        self.ctc = nn.CTCLoss(blank=0, zero_infinity=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=1e-3, fused=True)
        self.scaler = GradScaler("cuda")
        self.loader = DataLoader(
            LibriDataset(manifest), batch_size=32, shuffle=True, collate_fn=pad_batch,
            num_workers=8, pin_memory=True, persistent_workers=True,
        )

    def step(self, feats, feat_lens, tokens, token_lens):
        feats = feats.cuda(non_blocking=True)
        tokens = tokens.cuda(non_blocking=True)
        self.optimizer.zero_grad()
        with autocast("cuda"):
            log_probs, out_lens = self.model(feats, feat_lens)
        loss = self.ctc(log_probs.float().transpose(0, 1), tokens, out_lens, token_lens)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def run(self):
        for epoch in range(self.epochs):
            self.model.train()
            epoch_loss = torch.zeros((), device="cuda")
            for batch in self.loader:
                epoch_loss += self.step(*batch)
            print(f"epoch {epoch}: ctc {epoch_loss.item() / len(self.loader):.3f}")
            torch.save(self.model.state_dict(), "conformer_last.pt")


if __name__ == "__main__":
    Recipe("train-clean-100.jsonl", vocab_size=1024).run()
