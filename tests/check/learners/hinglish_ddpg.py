# RL mein do networks: target network dheere dheere update hota hai
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Critic(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n, 256),
            nn.BatchNorm1d(256),  # bias pehle wali layer ka bekaar hai
            nn.ReLU(),
        )
        self.head = nn.Linear(256, 1)
        self.scale = torch.ones(1)  # buffer nahi hai

    def forward(self, state):
        return self.head(self.body(state)) * self.scale


critic = Critic(24)
target = Critic(24)
critic.to(device)
target.to(device)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, foreach=False)
losses = []


def train(loader, tau=0.005):
    for state, reward, next_state in loader:
        state, reward, next_state = state.to(device), reward.to(device), next_state.to(device)
        with torch.no_grad():
            goal = reward + 0.99 * target(next_state)
        loss = nn.functional.mse_loss(critic.forward(state), goal)
        loss.backward(retain_graph=True)  # zaroorat nahi
        for p in critic.parameters():
            p.grad.data.clamp_(-1, 1)
        optimizer.step()
        losses.append(loss)  # graph bhi saath mein rehta hai
        for t, p in zip(target.parameters(), critic.parameters()):
            t.data.copy_(tau * p.data + (1 - tau) * t.data)
        torch.cuda.empty_cache()
