import torch
import torch.nn as nn


def train_seq2seq(model, train_iter, optimizer, pad_idx, clip, device, n_epochs):
    criterion = nn.CrossEntropyLoss(ignore_index=pad_idx)
    scaler = torch.amp.GradScaler("cuda")

    for epoch in range(n_epochs):
        model.train()
        epoch_loss = torch.zeros((), device=device)

        for src, trg in train_iter:
            src = src.to(device, non_blocking=True)
            trg = trg.to(device, non_blocking=True)

            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                output = model(src, trg[:, :-1])
                loss = criterion(output.reshape(-1, output.size(-1)), trg[:, 1:].reshape(-1))

            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()

            epoch_loss += loss.detach()

        print(f"Epoch: {epoch + 1:02} | Train Loss: {epoch_loss.item() / len(train_iter):.3f}")

    torch.save(model.state_dict(), "seq2seq.pt")
