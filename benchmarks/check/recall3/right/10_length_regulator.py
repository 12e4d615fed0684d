import torch
from torch import nn


class LengthRegulator(nn.Module):
    """Expands phoneme states to frames."""

    def forward(self, hidden, durations, n_frames):
        # hidden: (T, C), durations: (T,), n_frames: total frames, from the dataset
        return torch.repeat_interleave(hidden, durations, dim=0, output_size=n_frames)


def train_tts(encoder, decoder, loader, optimizer):
    regulator = LengthRegulator().cuda()
    for phones, durations, mel in loader:
        n_frames = mel.shape[0]
        phones = phones.cuda(non_blocking=True)
        durations = durations.cuda(non_blocking=True)
        mel = mel.cuda(non_blocking=True)
        frames = regulator(encoder(phones), durations, n_frames)
        loss = (decoder(frames) - mel).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
