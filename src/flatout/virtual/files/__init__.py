"""A dry run never replaces or deletes a real file with invented values.

`install` lays a temporary store over the file system; `taint` is called by the virtual GPU at the first invented value;
`FileGuard.report` says at the end what was spared.
"""

from flatout.virtual.files.install import FileGuard, FileOptions, FileReport, install
from flatout.virtual.files.ops import TensorOps
from flatout.virtual.files.tainting import taint, tainted

__all__ = ["FileGuard", "FileOptions", "FileReport", "TensorOps", "install", "taint", "tainted"]
