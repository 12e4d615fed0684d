import torch
from torch.nn.utils import clip_grad_norm_


def train_policy(policy, loader, optimizer, device, max_norm=0.5, log_every=200):
    policy.train()
    for it, (obs, act, adv) in enumerate(loader):
        obs = obs.to(device, non_blocking=True)
        act = act.to(device, non_blocking=True)
        adv = adv.to(device, non_blocking=True)
        logp = policy(obs).log_prob(act)
        loss = -(logp * adv).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(policy.parameters(), max_norm)
        optimizer.step()
        if it % log_every == 0:
            print(f"{it:6d} loss {loss.item():.3f} grad {norm.item():.3f}")
