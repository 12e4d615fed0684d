"""flatout: know before you rent the GPU, see while it runs, prove what you changed.

Importing this package does not import torch.
"""

__all__ = ["FlatoutError", "__version__"]

from flatout.errors import FlatoutError

__version__ = "0.1.0"
