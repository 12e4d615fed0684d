"""Stopping and going on: the state of a training as plain data, and files that are there whole or not at all."""
