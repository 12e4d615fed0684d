"""Accumulation windows: from the losses of micro-batches to one optimizer step, by exact arithmetic."""
