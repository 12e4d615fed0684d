import torch
from torch import nn


class LengthRegulator(nn.Module):
    """Expands phoneme states to frames."""

    def forward(self, hidden, durations):
        # hidden: (T, C), durations: (T,)
        return torch.repeat_interleave(hidden, durations, dim=0)


def train_tts(encoder, decoder, loader, optimizer):
    regulator = LengthRegulator().cuda()
    for phones, durations, mel in loader:
        phones = phones.cuda(non_blocking=True)
        durations = durations.cuda(non_blocking=True)
        mel = mel.cuda(non_blocking=True)
        frames = regulator(encoder(phones), durations)
        loss = (decoder(frames) - mel).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
