import torch
from torch import nn


class GraphReadout(nn.Module):
    """Mean-pool node features of packed graphs and predict one value a graph."""

    def __init__(self, hidden: int, out_dim: int):
        super().__init__()
        self.gate = nn.Linear(hidden, 1)
        self.head = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, out_dim),
        )

    def forward(self, h: torch.Tensor, num_nodes: torch.Tensor) -> torch.Tensor:
        n_graphs = num_nodes.size(0)
        graph_ids = torch.arange(n_graphs, device=h.device)
        index = torch.repeat_interleave(graph_ids, num_nodes, output_size=h.size(0))
        weighted = h * torch.sigmoid(self.gate(h))
        pooled = weighted.new_zeros(n_graphs, h.size(1)).index_add(0, index, weighted)
        pooled = pooled / num_nodes.clamp(min=1).unsqueeze(1)
        return self.head(pooled)


def train(encoder, readout, loader, optimizer, device):
    encoder.train()
    readout.train()
    for batch in loader:
        feats = batch["x"].to(device, non_blocking=True)
        edges = batch["edge_index"].to(device, non_blocking=True)
        counts = batch["num_nodes"].to(device, non_blocking=True)
        target = batch["y"].to(device, non_blocking=True)
        pred = readout(encoder(feats, edges), counts)
        loss = nn.functional.mse_loss(pred, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
