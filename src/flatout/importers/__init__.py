"""Readers of traces and snapshots that other tools made."""
