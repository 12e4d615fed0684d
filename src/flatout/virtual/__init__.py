"""The virtual GPU: a dry run of a script on a GPU that is not here. Importing this package does not import torch."""
