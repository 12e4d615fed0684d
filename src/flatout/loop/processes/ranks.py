"""The processes that train together, and what they tell each other.

One process is the plain case: every exchange gives back what it was given. torchrun is the launcher; a process group
that the user has already made is kept.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from flatout.errors import TrainingError, UsageError

LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK")  # what torchrun sets, and nothing else does
GONE = ("Connection closed by peer", "Connection reset by peer", "Timed out waiting", "NCCL communicator was aborted")
ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
HINT_SECONDS = 30.0
LAST_BREATH_SECONDS = 0.1  # many times what a thread needs that waits only for the interpreter's lock


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    `hosts`: the group (gloo) for what lies in host memory: flags and objects travel in it, past the GPUs' queues. None
    is the default group.
    """

    rank: int = 0
    local_rank: int = 0
    count: int = 1
    hosts: Any = None

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, value: Any, device: torch.device) -> Any:
        """`value` (a number, or a tensor of any shape) summed over the ranks; a tensor where there is more than one.

        Tensors stay on `device` and the host does not wait for it. Single numbers are summed in float64, whatever each
        rank has them in.
        """
        if self.count == 1:
            return value
        if isinstance(value, torch.Tensor):
            kind = torch.float64 if value.dim() == 0 else torch.int64 if value.dtype == torch.bool else value.dtype
            total = value.detach().to(device, kind, copy=True)
        else:
            total = torch.full((), float(value), dtype=torch.float64, device=device)
        with self.together("sum"):
            dist.all_reduce(total, group=self.hosts if device.type == "cpu" else None)
        return total

    def any(self, flag: bool) -> bool:
        """Whether any rank says so."""
        if self.count == 1:
            return flag
        said = torch.tensor(int(flag))
        with self.together("any"):
            dist.all_reduce(said, dist.ReduceOp.MAX, group=self.hosts)
        return bool(said)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's object (anything that can be pickled), in order of rank."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        with self.meeting("gather"):
            dist.all_gather_object(values, value, group=self.hosts)
        return values

    def broadcast(self, value: Any) -> Any:
        """The first rank's object."""
        if self.count == 1:
            return value
        values = [value]
        with self.meeting("broadcast"):
            dist.broadcast_object_list(values, src=0, group=self.hosts)
        return values[0]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.count > 1:
            with self.meeting("barrier"):
                dist.barrier(group=self.hosts)

    @contextmanager
    def together(self, what: str) -> Iterator[None]:
        """Around an exchange: a rank that is gone becomes a `TrainingError` that says where to look."""
        try:
            yield
        except RuntimeError as error:
            raise lost(self.rank, what, error) from error

    @contextmanager
    def meeting(self, what: str) -> Iterator[None]:
        """Around an exchange that is rare, and that a script may leave out on some ranks: a long wait is said."""
        hint = threading.Timer(
            HINT_SECONDS,
            lambda: print(
                f"flatout: rank {self.rank} has waited {HINT_SECONDS:g} s for the other processes ({what}); every "
                "process has to call loop.save, resume, metrics, evaluation and gather, not only the first",
                file=sys.stderr,
                flush=True,
            ),
        )
        hint.daemon = True
        hint.start()
        try:
            with self.together(what):
                yield
        finally:
            hint.cancel()


def lost(rank: int, what: str, error: BaseException) -> TrainingError:
    """What to raise when the others do not answer."""
    told = str(error).strip().splitlines()
    return TrainingError(
        f"rank {rank} waited for the other processes ({what}) and one has stopped, or the processes do not do the same "
        "things in the same order; the first error in the output of the others says why. PyTorch says: "
        + (told[0] if told else type(error).__name__)
    )


def is_loss_of_peer(error: BaseException) -> bool:
    """Whether an error out of a backward or forward pass means that another process has gone."""
    told = str(error)
    return isinstance(error, RuntimeError) and any(part in told for part in GONE)


def join(device: torch.device) -> Ranks:
    """Join the processes that torchrun started, once; alone where it started none.

    The group is NCCL's on CUDA, gloo's on the CPU, and is left at the end of the process.
    """
    if not dist.is_available():
        return Ranks()
    if not dist.is_initialized():
        if not _launched():
            return Ranks()
        if device.type not in ("cuda", "cpu"):
            raise UsageError(
                f"Loop(device={device.type!r}): PyTorch has no way for several processes to exchange gradients on "
                f"{device.type}; start one process without torchrun, or give device='cpu'"
            )
        # Its functions have the default group as a default argument. Loaded later (by the first optimizer step), they
        # would hold the group for good, and gloo's threads would outlive Python: one process in 20 aborts at its end.
        importlib.import_module("torch.distributed.nn.functional")
        if device.type == "cuda":
            torch.cuda.set_device(device)
            dist.init_process_group("nccl", device_id=device)
        else:
            dist.init_process_group("gloo")
        atexit.register(_leave)
    rank, count = dist.get_rank(), dist.get_world_size()
    if count > 1:
        atexit.unregister(_let_threads_finish)  # once, and before the group is left
        atexit.register(_let_threads_finish)
    local_rank = int(os.environ.get("LOCAL_RANK", device.index or 0))
    return Ranks(rank, local_rank, count, _hosts() if count > 1 else None)


def _launched() -> bool:
    """Whether torchrun started this process; an environment of which only a half is there is refused."""
    missing = [name for name in LAUNCHED if name not in os.environ]
    if len(missing) == len(LAUNCHED):
        return False
    missing += [name for name in ADDRESS if name not in os.environ]
    if missing:
        there = next(name for name in LAUNCHED if name in os.environ)
        raise UsageError(
            f"Loop(): {there} is set in the environment but {', '.join(missing)} is not; start many processes with "
            "`torchrun --nproc-per-node=N script.py`, which sets all of them, or unset it to train in one process"
        )
    for name in LAUNCHED:
        if not os.environ[name].isdigit():
            raise UsageError(f"Loop(): {name}={os.environ[name]!r} in the environment is not a whole number from 0")
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank >= count:
        raise UsageError(f"Loop(): RANK={rank} in the environment, but WORLD_SIZE={count}: ranks count from 0")
    return True


_made_for: tuple[Any, Any] | None = None


def _hosts() -> Any:
    """The gloo group of all processes: the default one where it is gloo's, else one beside it, made once."""
    global _made_for
    if dist.get_backend() == "gloo":
        return None
    if _made_for is None or _made_for[0] is not dist.group.WORLD:
        _made_for = (dist.group.WORLD, dist.new_group(backend="gloo"))
    return _made_for[1]


def _let_threads_finish() -> None:
    """At the end of the process: let gloo's threads drop the tensors of the last exchanges.

    They need the interpreter's lock for that. A thread that asks for it only when the interpreter is being taken down
    aborts the process ("terminate called without an active exception", PyTorch 2.13 and 2.14), and torchrun reports
    a training that went well as failed. The threads outlive the group for as long as a DDP model holds it.
    """
    time.sleep(LAST_BREATH_SECONDS)


def _leave() -> None:
    """At the end of the process. After an error the group is not taken down in order: the others may be stuck in it."""
    if dist.is_initialized() and getattr(sys, "last_value", None) is None:
        dist.destroy_process_group()
