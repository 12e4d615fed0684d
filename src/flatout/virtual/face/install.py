"""Everything that a script can see of the virtual GPU, in the order in which it is put in place."""

from __future__ import annotations

import torch

from flatout.steps.imports import watch_imports
from flatout.virtual import private_names
from flatout.virtual.face import (
    accelerator,
    backends,
    backward,
    categories,
    collectives,
    compiled,
    creation,
    devices,
    distributed,
    driver,
    extensions,
    forks,
    generators,
    graphs,
    grouping,
    interchange,
    legacy_types,
    loaders,
    masks,
    memory_functions,
    storages,
    streams,
    tensors,
)
from flatout.virtual.face.constructors import Intercepted
from flatout.virtual.face.patches import Patches
from flatout.virtual.machine import Machine


class Installed:
    """The face in place. `uninstall` puts PyTorch back as it was."""

    def __init__(self, patches: Patches, intercepted: list[Intercepted]) -> None:
        self._patches = patches
        self._intercepted = intercepted

    def uninstall(self) -> None:
        """Put PyTorch back as it was (kernels stay registered: C++ offers no way back)."""
        self._patches.undo()
        for one in reversed(self._intercepted):
            one.undo()


_PARTS = (
    backends,
    driver,
    memory_functions,
    streams,
    graphs,
    accelerator,
    tensors,
    storages,
    legacy_types,
    interchange,
    creation,
    masks,
    collectives,
    categories,
    compiled,
    distributed,
    grouping,
    extensions,
    backward,
    loaders,
)


def install(machine: Machine) -> Installed:
    """Give this process's PyTorch the face of that machine, which must be current.

    Raises UnsupportedError where the installed PyTorch lacks something that this stands on.
    """
    private_names.check()
    forks.install()
    patches = Patches()
    patches.on_undo(watch_imports())
    intercepted = [
        Intercepted(torch.device, devices.construct_device),
        Intercepted(torch.Generator, generators.construct_generator),
        Intercepted(torch.Stream, streams.construct_stream),
        Intercepted(torch.Event, streams.construct_event, streams.is_event),
    ]
    for part in _PARTS:
        part.install(patches)
    generators.install(patches)
    return Installed(patches, intercepted)
