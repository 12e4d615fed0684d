"""Libraries that open files in C++, Rust or C: the path is changed before they see it.

One row a function. A library that is not imported is not touched; it is dealt with when the script imports it.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import os
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from flatout.virtual.files import native
from flatout.virtual.files.layout import below
from flatout.virtual.files.patches import AfterImport, Patches
from flatout.virtual.files.shadow import ShadowStore

DATABASE_COPY_BYTES = 256 << 20  # an SQLite file above this is opened read-only instead of being copied


@dataclass(frozen=True)
class NativeCall:
    """A function, dotted below its module, whose argument `name` (at `position`) is a path it opens by itself."""

    module: str
    function: str
    use: Literal["read", "write", "keep"]
    name: str
    position: int = 0


CALLS = (
    NativeCall("torch", "_C.PyTorchFileWriter", "write", "file_name"),
    NativeCall("torch", "_C.PyTorchFileReader", "read", "file_name"),
    NativeCall("torch", "UntypedStorage.from_file", "read", "filename"),
    NativeCall("torch", "jit.save", "write", "f", 1),
    NativeCall("torch", "jit.load", "read", "f"),
    NativeCall("torch", "jit.ScriptModule.save", "write", "f", 1),
    NativeCall("torch", "jit.RecursiveScriptModule.save", "write", "f", 1),
    NativeCall("safetensors", "serialize_file", "write", "filename", 1),
    NativeCall("safetensors", "safe_open", "read", "filename"),
    NativeCall("tokenizers", "Tokenizer.save", "write", "path", 1),
    NativeCall("tokenizers", "Tokenizer.from_file", "read", "path"),
    NativeCall("cv2", "imwrite", "write", "filename"),
    NativeCall("cv2", "imread", "read", "filename"),
    NativeCall("cv2", "VideoWriter", "write", "filename"),
    NativeCall("soundfile", "write", "write", "file"),
    NativeCall("soundfile", "read", "read", "file"),
    NativeCall("torchaudio", "save", "write", "uri"),
    NativeCall("torchaudio", "load", "read", "uri"),
    NativeCall("torchvision.io", "write_file", "write", "filename"),
    NativeCall("torchvision.io", "write_jpeg", "write", "filename", 1),
    NativeCall("torchvision.io", "write_png", "write", "filename", 1),
    NativeCall("torchvision.io", "write_video", "write", "filename"),
    NativeCall("torchvision.io", "read_file", "read", "path"),
    NativeCall("torchvision.io", "decode_image", "read", "input"),
    NativeCall("pyarrow.parquet", "write_table", "write", "where", 1),
    NativeCall("pyarrow.parquet", "read_table", "read", "source"),
    NativeCall("pyarrow", "OSFile", "keep", "path"),
    NativeCall("pyarrow", "memory_map", "keep", "path"),
    NativeCall("lmdb", "open", "keep", "path"),
)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _place(store: ShadowStore, use: str, path: Any) -> Any:
    if use == "read":
        return (store.place_to_read(path) if store.active else None) or path
    if use == "keep" and native.look(store.physical(store.key(store.text(path)))) is not None:
        return (store.place_to_read(path) if store.active else None) or path
    place = store.place_to_write(path, keep=use == "keep")
    return place.encode() if isinstance(path, bytes) else place


def _redirected(original: Any, call: NativeCall, store: ShadowStore) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def redirected(*arguments: Any, **options: Any) -> Any:
        if call.name in options and _is_path(options[call.name]):
            options[call.name] = _place(store, call.use, options[call.name])
        elif len(arguments) > call.position and _is_path(arguments[call.position]):
            changed = _place(store, call.use, arguments[call.position])
            arguments = (*arguments[: call.position], changed, *arguments[call.position + 1 :])
        if "map_location" in options:  # torch.load hands a TorchScript archive on, with our own function for the place
            options["map_location"] = getattr(options["map_location"], "asked_for", options["map_location"])
        return original(*arguments, **options)

    return redirected


def _subclass(original: type, call: NativeCall, store: ShadowStore) -> type:
    """For a class that others ask ``isinstance`` of."""
    constructor: Any = vars(original)["__init__"]
    initialise = _redirected(constructor, dataclasses.replace(call, position=call.position + 1), store)
    return type(original.__name__, (original,), {"__init__": initialise, "__module__": original.__module__})


def _replace(module: Any, call: NativeCall, store: ShadowStore, patches: Patches) -> list[tuple[Any, Any]]:
    """Replace one function; returns what to rebind where modules took it by name."""
    owner = module
    *path, name = call.function.split(".")
    for part in path:
        owner = getattr(owner, part, None)
        if owner is None:
            return []
    original = getattr(owner, name, None)
    if original is None:
        return []
    new: Any = _redirected(original, call, store)
    if call.module == "torch" and isinstance(original, type):
        new = _subclass(original, call, store)
    if isinstance(owner, type) and call.position == 0:
        new = staticmethod(new)
    with contextlib.suppress(TypeError):  # a C class that cannot be changed; the file then counts as uncovered
        patches.put(owner, name, new)
    return [] if isinstance(owner, type) else [(original, new)]


def _sqlite_connect(original: Any, store: ShadowStore) -> Callable[..., Any]:
    @functools.wraps(original)
    def connect(database: Any, *arguments: Any, **options: Any) -> Any:
        if not _is_path(database) or os.fsdecode(database) in ("", ":memory:"):
            return original(database, *arguments, **options)
        name = os.fsdecode(database)
        query = ""
        if options.get("uri") and name.startswith("file:"):
            parts = urllib.parse.urlsplit(name)
            name, query = urllib.parse.unquote(parts.path), parts.query
            if ":memory:" in parts.path or "mode=memory" in query:
                return original(database, *arguments, **options)
        reads_only = "mode=ro" in query or "immutable=1" in query
        if reads_only:
            place = (store.place_to_read(name) if store.active else None) or name
        else:
            writable = _database_place(store, name)
            if writable is None:
                query = "mode=ro"
            place = writable or name
        if query:
            options["uri"] = True
            return original(f"file:{urllib.parse.quote(os.fspath(place))}?{query}", *arguments, **options)
        return original(place, *arguments, **options)

    return connect


def _database_place(store: ShadowStore, name: str) -> str | None:
    """Where to open a database for writing; None where it must be read-only."""
    with native.exemption():
        key = store.key(store.text(name))
        status = native.look(key)
        if status is not None and status.st_size > DATABASE_COPY_BYTES and store.diverts(key) and not store.stored(key):
            return None
        place = store.place_to_write(name, keep=True, long_lived=True)
        if below(place, store.store) and native.look(place) is None and native.look(key) is not None:
            place = store.copy_up(key)
        for suffix in ("-wal", "-journal"):
            other = key + suffix
            if below(place, store.store) and native.look(other) is not None and not store.stored(other):
                store.copy_up(other)
        return place


def _mapped(original: Any, numpy: Any, store: ShadowStore) -> Callable[..., Any]:
    @functools.wraps(original)
    def memmap(cls: Any, filename: Any, dtype: Any = numpy.uint8, mode: Any = "r+", *rest: Any, **options: Any) -> Any:
        if not _is_path(filename) or mode in ("r", "readonly", "c", "copyonwrite"):
            return original(cls, filename, dtype, mode, *rest, **options)
        keep = mode in ("r+", "readwrite")
        place = store.place_to_write(filename, keep=keep, long_lived=not keep)
        array = original(cls, place, dtype, mode, *rest, **options)
        array.filename = os.path.join(store.working_directory(), os.fsdecode(filename))
        return array

    return memmap


def _open_of_the_moment(*arguments: Any, **options: Any) -> Any:
    return builtins.open(*arguments, **options)


def _h5py(module: Any, store: ShadowStore, patches: Patches) -> None:
    original = module.File.__init__

    @functools.wraps(original)
    def __init__(self: Any, name: Any, mode: str = "r", *rest: Any, **options: Any) -> None:
        if _is_path(name):
            if mode == "r":
                name = _place(store, "read", name)
            else:
                exists = native.look(store.physical(store.key(store.text(name)))) is not None
                if mode in ("w-", "x") and exists:
                    raise FileExistsError(17, os.strerror(17), name)
                place = store.place_to_write(name, keep=mode in ("a", "r+"), long_lived=True)
                name, mode = place, "w" if mode in ("w-", "x") else mode
        original(self, name, mode, *rest, **options)

    patches.put(module.File, "__init__", __init__)


def install_libraries(store: ShadowStore, patches: Patches, after: AfterImport, package: str) -> None:
    """Replace the functions of `CALLS`, SQLite's `connect`, NumPy's maps and HDF5 files."""
    import sqlite3

    def numpy_ready(numpy: Any) -> None:
        patches.put(numpy.memmap, "__new__", staticmethod(_mapped(numpy.memmap.__new__, numpy, store)))
        openers = getattr(getattr(numpy.lib, "_datasource", None), "_file_openers", None)
        table: dict[Any, Any] = getattr(openers, "_file_openers", {})
        if None in table:  # savetxt and loadtxt keep the `open` of the time when NumPy was imported
            original = table[None]
            table[None] = _open_of_the_moment
            patches.on_restore(lambda: table.__setitem__(None, original))

    def ready(calls: list[NativeCall]) -> Callable[[Any], None]:
        def act(module: Any) -> None:
            for call in calls:
                taken.extend(_replace(module, call, store, patches))

        return act

    taken: list[tuple[Any, Any]] = [(sqlite3.connect, _sqlite_connect(sqlite3.connect, store))]
    after.add("numpy", numpy_ready)
    after.add("h5py", lambda module: _h5py(module, store, patches))
    for name in dict.fromkeys(call.module for call in CALLS):
        after.add(name, ready([call for call in CALLS if call.module == name]))
    patches.rebind(taken, package)
