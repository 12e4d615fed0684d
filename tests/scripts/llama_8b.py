"""A Llama-3-8B-shaped model, randomly initialised, trained in bfloat16 with AdamW: larger than most hosts."""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--intermediate", type=int, default=14336)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--checkpointing", action="store_true")
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = LlamaConfig(
        hidden_size=args.hidden,
        intermediate_size=args.intermediate,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=max(args.heads // 4, 1),
        vocab_size=args.vocabulary,
        max_position_embeddings=max(args.length, 2048),
        use_cache=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if args.checkpointing:
        model.gradient_checkpointing_enable()
    model.to(device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion parameters on {device}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    model.train()
    for step in range(args.steps):
        tokens = torch.randint(0, args.vocabulary, (args.batch_size, args.length), device=device)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
