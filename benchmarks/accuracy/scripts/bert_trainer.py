"""Fine-tunes a BERT-large-shaped classifier with transformers' Trainer on random sentences of 512 tokens.

An ordinary script: it needs torch and transformers, and knows nothing of flatout.
"""

import argparse
import tempfile

import torch
from transformers import Adafactor, BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--optimizer", choices=["adamw", "adafactor"], default="adamw")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--like-torch-1.10", dest="old", action="store_true", help="keep in memory what PyTorch 1.10 kept")
args = parser.parse_args()


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):
        return {"input_ids": torch.randint(100, 30_000, (512,)), "labels": i % 2}


config = BertConfig(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager"
)
model = BertForSequenceClassification(config)


class OldSoftmax(torch.autograd.Function):
    """Softmax as it was before PyTorch 1.11: its backward took the input too, only to read its dtype."""

    @staticmethod
    def forward(ctx, input, dim):
        result = torch._softmax(input, dim, False)
        ctx.save_for_backward(input, result)
        ctx.dim = dim
        return result

    @staticmethod
    def backward(ctx, grad):
        input, result = ctx.saved_tensors
        return torch._softmax_backward_data(grad, result, ctx.dim, input.dtype), None


def old_softmax(input, dim=None, dtype=None):
    if dtype is not None:
        input = input.to(dtype)
    elif torch.is_autocast_enabled("cuda"):
        input = input.float()
    return OldSoftmax.apply(input, dim)


if args.old:
    torch.nn.functional.softmax = old_softmax
    # Gradients were zeroed in place.
    plain_zero_grad = model.zero_grad
    model.zero_grad = lambda set_to_none=False: plain_zero_grad(set_to_none=False)

if args.optimizer == "adafactor":
    optimizer = Adafactor(model.parameters(), lr=5e-5, relative_step=False, scale_parameter=False)
else:
    # One tensor at a time, as transformers' own AdamW of that time worked.
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)

trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=args.batch_size,
        gradient_accumulation_steps=args.accumulate,
        gradient_checkpointing=args.checkpointing,
        fp16=args.fp16,
        max_steps=args.steps,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        dataloader_pin_memory=False,
    ),
    train_dataset=Sentences(),
    optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)),
)
trainer.train()
