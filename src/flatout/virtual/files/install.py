"""Putting it all in place for a dry run, and taking it away again."""

from __future__ import annotations

import atexit
import contextlib
import os
import stat as stat_bits
import sys
from dataclasses import dataclass
from multiprocessing.util import Finalize

from flatout.virtual.files import audit, native
from flatout.virtual.files.folder import make_folder
from flatout.virtual.files.layout import standard_layout
from flatout.virtual.files.ops import TensorOps
from flatout.virtual.files.patches import AfterImport, Patches
from flatout.virtual.files.rescue import rescue_open_files
from flatout.virtual.files.shadow import ShadowStore
from flatout.virtual.files.tainting import reset, when_tainted
from flatout.virtual.files.trackers import switch_off
from flatout.virtual.files.wrap_libraries import install_libraries
from flatout.virtual.files.wrap_os import install_os

PACKAGE = "flatout.virtual.files"


@dataclass(frozen=True)
class FileOptions:
    """How a dry run treats files.

    `allow_writes`: the script may change real files (``--allow-writes``); trackers stay off. `allowed`: paths that are
    written for real in any case, such as the run's own recording. `temporary` and `protected` replace the system's
    temporary directories and the working directory (see `layout.standard_layout`).
    """

    allow_writes: bool = False
    allowed: tuple[str, ...] = ()
    temporary: tuple[str, ...] | None = None
    protected: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FileReport:
    """What a dry run did to files; paths are absolute, in the order of first writing.

    `shadowed`: files written to the store, now gone with it. `spared`: real files that the script meant to replace,
    change or delete. `kept`: new real files that it wrote before the first invented value. `programs`: programs that it
    started, which see and change the real files.
    """

    shadowed: tuple[str, ...]
    spared: tuple[str, ...]
    kept: tuple[str, ...]
    programs: tuple[str, ...]

    def sentence(self) -> str:
        """One line for the report; empty where there is nothing to say."""
        if not self.shadowed and not self.spared:
            return ""
        written = f"{len(self.shadowed)} file{'' if len(self.shadowed) == 1 else 's'} written to a temporary copy"
        if not self.spared:
            return f"{written}, none of yours touched"
        return f"{written}, none of yours touched ({len(self.spared)} would have been replaced, changed or deleted)"


class FileGuard:
    """The handle of an installation. `uninstall` restores every function and removes the store."""

    def __init__(self, patches: Patches, after: AfterImport, folder: str, store: ShadowStore | None) -> None:
        self.store = store
        self._patches = patches
        self._after = after
        self._folder = folder
        self._owner_process = os.getpid()
        self._last_report: FileReport | None = None

    def report(self) -> FileReport:
        """What has happened so far; after `uninstall`, what happened in all."""
        if self._last_report is not None:
            return self._last_report
        store = self.store
        if store is None:
            return FileReport((), (), (), ())
        files = [key for key in store.made if not store.layout.is_temporary(key)]
        kept = [key for key in files if (status := native.look(key)) and not stat_bits.S_ISDIR(status.st_mode)]
        return FileReport(tuple(store.written), tuple(store.spared), tuple(sorted(kept)), audit.programs())

    def uninstall(self) -> None:
        """Restore everything. In a forked child the store is left to the parent. Safe to call twice."""
        if self._last_report is not None:
            return
        self._last_report = self.report()
        atexit.unregister(self.uninstall)
        audit.stop()
        self._patches.restore()
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self._after)
        reset()
        if os.getpid() != self._owner_process:
            return
        if self.store is not None:
            self._leave_store_directory()
            for key in sorted(self.store.made, key=len, reverse=True):
                if not self.store.layout.is_temporary(key):
                    with contextlib.suppress(OSError):
                        native.rmdir(key)  # directories that were made for files which went to the store
        native.remove_tree(self._folder)

    def _leave_store_directory(self) -> None:
        assert self.store is not None
        inside = native.getcwd()
        logical = self.store.unshadow(inside)
        while logical != inside and not native.is_directory(native.look(logical)):
            logical = os.path.dirname(logical)
        if logical != inside:
            native.chdir(logical)


def install(options: FileOptions, ops: TensorOps | None = None) -> FileGuard:
    """Protect real files from here on, for this process and its forked children.

    `ops` connects the virtual GPU's tensors to `torch.save`, `torch.load`, pickle and safetensors; without it torch is
    not imported. Call it before the script, and `uninstall` of the result after.
    """
    patches = Patches()
    after = AfterImport()
    folder = make_folder()
    store: ShadowStore | None = None
    allowed = (*options.allowed, folder)
    layout = standard_layout(temporary=options.temporary, allowed=allowed, protected=options.protected)
    trackers = os.path.join(folder, "trackers")
    native.mkdir(trackers)
    if not options.allow_writes:
        store = ShadowStore(layout, os.path.join(folder, "store"))
    switch_off(patches, after, trackers)
    if store is not None:
        install_libraries(store, patches, after, PACKAGE)
    if ops is not None:
        _install_tensors(ops, store, patches, after)
    if store is not None:
        shadow = store
        install_os(shadow, patches, PACKAGE)
        audit.watch(shadow)
        when_tainted(lambda: rescue_open_files(shadow))
    sys.meta_path.insert(0, after)
    guard = FileGuard(patches, after, folder, store)
    # Both ways in which a process ends: as a program, and as a worker of multiprocessing (which skips atexit).
    atexit.register(guard.uninstall)
    Finalize(None, guard.uninstall, exitpriority=-100)
    return guard


def _install_tensors(ops: TensorOps, store: ShadowStore | None, patches: Patches, after: AfterImport) -> None:
    from flatout.virtual.files.load import install_load
    from flatout.virtual.files.reduce import install_reduce

    install_reduce(ops, patches)
    install_load(ops, store, patches)

    def reading(module: object) -> None:
        from flatout.virtual.files.tensor_files import install_reading

        install_reading(module, ops, patches, PACKAGE)

    def writing(module: object) -> None:
        from flatout.virtual.files.tensor_files import install_writing

        install_writing(module, ops, patches, PACKAGE)

    after.add("safetensors", reading)
    after.add("safetensors.torch", writing)
