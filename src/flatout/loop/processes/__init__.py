"""Many processes: what they tell each other, DDP, FSDP2, and which of the two."""
