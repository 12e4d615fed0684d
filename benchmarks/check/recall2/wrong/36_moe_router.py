import torch
import torch.nn as nn
import torch.nn.functional as F


class SoftMoE(nn.Module):
    def __init__(self, dim, n_experts, hidden):
        super().__init__()
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden ** -0.5)

    def forward(self, x):
        gates = self.router(x).softmax(dim=-1)
        load = gates.mean(dim=(0, 1))
        print("max expert load", load.max().item())
        h = F.gelu(torch.einsum("btd,edh->bteh", x, self.w1))
        y = torch.einsum("bteh,ehd->bted", h, self.w2)
        out = (y * gates.unsqueeze(-1)).sum(dim=2)
        return out, load


def train(loader, vocab, dim=256, steps_per_print=200):
    device = torch.device("cuda")
    emb = nn.Embedding(vocab, dim).to(device)
    moe = SoftMoE(dim, n_experts=8, hidden=512).to(device)
    head = nn.Linear(dim, vocab).to(device)
    params = [p for m in (emb, moe, head) for p in m.parameters()]
    opt = torch.optim.AdamW(params, lr=3e-4, fused=True)
    fast_moe = torch.compile(moe)

    for step, tokens in enumerate(loader):
        tokens = tokens.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            h, load = fast_moe(emb(tokens[:, :-1]))
            logits = head(h)
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss = loss + 0.01 * load.square().sum() * load.numel()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % steps_per_print == 0:
            print(step, loss.item())
