"""The data: batches in the order of the plain loader, at a place that can be resumed, copied ahead of their use."""
