"""Which parts of the file system a dry run may write to for real."""

from __future__ import annotations

import getpass
import os
import re
import sys
import tempfile
from dataclasses import dataclass

SPECIAL_ROOTS = ("/dev", "/proc", "/sys")
CACHE_MARKS = ("__pycache__",)


def code_caches() -> tuple[str, ...]:
    """Directories that hold what is computed from code or downloaded, never from a tensor's values.

    Prepared-data caches (Hugging Face ``datasets``, joblib) are left out on purpose: what a dry run puts there would be
    picked up by the next real run.
    """
    home = os.path.expanduser("~")
    environment = os.environ
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hugging_face = environment.get("HF_HOME") or os.path.join(cache, "huggingface")
    found = [
        environment.get("HF_HUB_CACHE") or os.path.join(hugging_face, "hub"),
        environment.get("HF_MODULES_CACHE") or os.path.join(hugging_face, "modules"),
        environment.get("HF_XET_CACHE") or os.path.join(hugging_face, "xet"),
        environment.get("TORCH_HOME") or os.path.join(cache, "torch"),
        environment.get("TORCH_EXTENSIONS_DIR") or os.path.join(cache, "torch_extensions"),
        environment.get("TORCHINDUCTOR_CACHE_DIR") or _inductor_cache(),
        environment.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton"),
        environment.get("CUDA_CACHE_PATH") or os.path.join(home, ".nv"),
        environment.get("NUMBA_CACHE_DIR") or "",
        environment.get("MPLCONFIGDIR") or os.path.join(cache, "matplotlib"),
        os.path.join(cache, "fontconfig"),
        os.path.join(cache, "pip"),
        sys.pycache_prefix or "",
    ]
    return tuple(path for path in found if path)


def _inductor_cache() -> str:
    # Source: torch/_inductor/runtime/cache_dir_utils.py, default_cache_dir.
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
    return os.path.join(tempfile.gettempdir(), "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user))


def temporary_directories() -> tuple[str, ...]:
    """The system's directories for temporary files."""
    found = [tempfile.gettempdir()]
    if os.name == "posix":
        found += ["/tmp", "/var/tmp"]
    return tuple(dict.fromkeys(found))


def below(path: str, root: str) -> bool:
    """Whether `path` is `root` or inside it; both absolute and without links."""
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


@dataclass(frozen=True)
class Layout:
    """Roots of each kind, absolute and without symbolic links.

    `allowed` always wins (devices, code caches, the run's own recording); `protected` are directories inside the
    temporary ones that are somebody's work all the same, such as a project checked out under /tmp.
    """

    temporary: tuple[str, ...]
    allowed: tuple[str, ...]
    protected: tuple[str, ...]

    def is_allowed(self, key: str) -> bool:
        """Whether writes to this path are never diverted."""
        if any(below(key, root) for root in self.allowed):
            return True
        return any(mark in key.split(os.sep) for mark in CACHE_MARKS if mark in key)

    def is_temporary(self, key: str) -> bool:
        """Whether this path is scratch: the innermost root that it is in is a temporary one."""
        scratch = max((len(root) for root in self.temporary if below(key, root)), default=-1)
        project = max((len(root) for root in self.protected if below(key, root)), default=-1)
        return scratch >= 0 and scratch >= project


def real_path(path: str) -> str:
    """Absolute, links resolved. For use before any function is replaced."""
    return os.path.realpath(os.path.abspath(path))


def standard_layout(
    *,
    temporary: tuple[str, ...] | None = None,
    allowed: tuple[str, ...] = (),
    protected: tuple[str, ...] | None = None,
) -> Layout:
    """The layout of this machine and user.

    `temporary` and `protected` stand in for the system's temporary directories and the working directory.
    """
    return Layout(
        temporary=tuple(real_path(root) for root in (temporary_directories() if temporary is None else temporary)),
        allowed=tuple(real_path(root) for root in (*allowed, *code_caches())) + SPECIAL_ROOTS,
        protected=tuple(real_path(root) for root in ((os.getcwd(),) if protected is None else protected)),
    )
