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
parser.add_argument("--set-to-none", action="store_true", help="zero_grad's default since torch 2.0")
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
if not args.set_to_none:
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
