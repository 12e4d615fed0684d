"""The state of a training: everything that the next steps depend on, collected and put back.

The same on all ranks, saved once: models, optimizers, schedulers, the scaler, the place in the training, what the user
keeps. Of each rank: its random numbers, its loaders' positions, its running means.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import flatout
from flatout.errors import CheckpointError, FlatoutError, UsageError
from flatout.loop.checkpoints import tensors
from flatout.loop.checkpoints.optimizers import load_optimizer, optimizer_faults, optimizer_state
from flatout.loop.checkpoints.plain import plain
from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.data.streams import capture_rng, restore_rng
from flatout.loop.metrics import Metrics
from flatout.loop.numerics.precision import Precision
from flatout.loop.processes import distributed
from flatout.loop.processes.distributed import Ranks
from flatout.loop.windows.stepping import Stepper

FIELDS = {
    *("epoch", "in_epoch", "steps", "ranks", "precision", "run", "extra"),
    *("models", "optimizers", "schedulers", "scaler", "kept", "loaders", "of_ranks"),
}
"""What a checkpoint holds."""


@dataclass
class State:
    """The parts of a loop that have a state.

    `trained`: a step was begun in this epoch's body. `kept`: the user's own objects with a state, by name. `extra`:
    what the user gave to the save that was resumed from. `run`: tells this training from others; a resumed one goes on
    under the same.
    """

    device: torch.device
    ranks: Ranks
    precision: Precision
    cursor: Cursor
    stepper: Stepper
    metrics: Metrics
    loaders: list[PreparedLoader]
    trained: bool = False
    kept: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    run: str = field(default_factory=lambda: secrets.token_hex(8))

    # --- collecting -------------------------------------------------------------------------------------------------

    def collect(self, extra: dict[str, Any], *, epoch: int, in_epoch: bool, copy: bool) -> dict[str, Any]:
        """The content of a checkpoint; every rank calls it, between windows, and only the first one's is whole.

        `epoch`: the one that a resume goes on with, `in_epoch`: in its middle. `copy`: see `plain`.
        """
        of_ranks = self.ranks.gather(self._of_this_rank())
        for own in of_ranks:
            if isinstance(own, FlatoutError):
                raise own
        models = [distributed.unwrap(model) for model in self.stepper.models]
        if not self.ranks.is_first:
            for sharded in filter(_is_sharded, [*models, *self.kept.values()]):
                tensors.model_state(sharded)
            if any(map(_is_sharded, models)):
                for optimizer in self.stepper.optimizers:
                    tensors.whole(optimizer.state_dict())
            return {}
        content = {
            "models": [tensors.model_state(model) for model in models],
            "optimizers": [optimizer_state(optimizer) for optimizer in self.stepper.optimizers],
            "schedulers": [_scheduler_state(scheduler) for scheduler in self.stepper.schedulers],
            "kept": {name: _kept_state(thing) for name, thing in self.kept.items()},
            "scaler": self.precision.scaler.state_dict(),
            "extra": extra,
            "loaders": [_loader_sizes(loader) for loader in self.loaders],
        }
        return {
            "flatout": flatout.__version__,
            "torch": str(torch.__version__),
            "run": self.run,
            "ranks": self.ranks.count,
            "precision": self.precision.mode,
            "epoch": epoch,
            "in_epoch": in_epoch,
            "steps": self.stepper.optimizer_steps,
            **{name: plain(part, name, copy=copy) for name, part in content.items()},
            "of_ranks": of_ranks,
        }

    def _of_this_rank(self) -> Any:
        """This rank's part, or why there is none: the others, who wait for it, are to know."""
        try:
            own = {
                "rng": capture_rng(self.device),
                "loaders": [loader.state_dict() for loader in self.loaders],
                "metrics": self.metrics.state_dict(),
                "stepper": self.stepper.state_dict(),
            }
            return plain(own, "the state of a rank", copy=True)
        except FlatoutError as error:
            return error

    # --- putting back -----------------------------------------------------------------------------------------------

    def faults(self, content: dict[str, Any]) -> list[str]:
        """Why this checkpoint is not of this training, in words; nothing where it is."""
        faults: list[str] = []
        here: dict[str, Sequence[Any]] = {
            "models": self.stepper.models,
            "optimizers": self.stepper.optimizers,
            "schedulers": self.stepper.schedulers,
            "loaders": self.loaders,
        }
        for name, things in here.items():
            if len(content[name]) != len(things):
                faults.append(f"{len(content[name])} {name} in the checkpoint, {len(things)} prepared")
        if set(content["kept"]) != set(self.kept):
            faults.append(f"kept objects {sorted(content['kept'])} in the checkpoint, {sorted(self.kept)} here")
        if content["precision"] != self.precision.mode:
            faults.append(f"saved in {content['precision']}, and this loop runs in {self.precision.mode}")
        if content["in_epoch"]:
            if content["ranks"] != self.ranks.count:
                faults.append(
                    f"saved in the middle of an epoch by {content['ranks']} ranks, and there are {self.ranks.count} "
                    "now, so the rest of the epoch cannot be dealt out as it was begun; resume with "
                    f"{content['ranks']}, or from a checkpoint of an epoch's end"
                )
            else:  # with other ranks the loaders differ for that reason alone
                faults += self._loader_faults(content["loaders"])
        for i, (model, state) in enumerate(zip(self.stepper.models, content["models"])):
            faults += [f"model {i}: {fault}" for fault in tensors.model_faults(distributed.unwrap(model), state)]
        for name, thing in self.kept.items():
            if isinstance(thing, nn.Module) and name in content["kept"]:
                faults += [f"{name}: {fault}" for fault in tensors.model_faults(thing, content["kept"][name])]
        for i, (optimizer, state) in enumerate(zip(self.stepper.optimizers, content["optimizers"])):
            faults += [f"optimizer {i}: {fault}" for fault in optimizer_faults(optimizer, state)]
        return faults

    def _loader_faults(self, saved: Sequence[Any]) -> list[str]:
        return [
            f"saved in the middle of an epoch, with loader {i} of {_words(sizes)}, now {_words(_loader_sizes(loader))}"
            for i, (sizes, loader) in enumerate(zip(saved, self.loaders))
            if sizes != _loader_sizes(loader)
        ]

    def restore(self, content: dict[str, Any]) -> Callable[[], None]:
        """Put back a content without faults. Models and optimizers come last: what the user keeps may refuse its state.

        Gives back what has to be done again just before training goes on, because the user's code until there may draw
        random numbers and read the means.
        """
        for name, thing in self.kept.items():
            self._load_kept(name, thing, content["kept"][name])
        for i, (scheduler, state) in enumerate(zip(self.stepper.schedulers, content["schedulers"])):
            _try(f"scheduler {i}", scheduler.load_state_dict, plain(state, "schedulers", copy=True))
        own = self._own(content)
        epoch, self.cursor.epoch = self.cursor.epoch, content["epoch"]
        try:
            for i, (loader, state) in enumerate(zip(self.loaders, own["loaders"])):
                _try(f"loader {i}", loader.load_state_dict, state)
        except CheckpointError:
            self.cursor.epoch = epoch
            raise
        for model, state in zip(self.stepper.models, content["models"]):
            tensors.load_model(distributed.unwrap(model), state)
        for optimizer, state in zip(self.stepper.optimizers, content["optimizers"]):
            load_optimizer(optimizer, state["state"], stepped=content["steps"] > 0)
        if self.precision.scaler.is_enabled():
            self.precision.scaler.load_state_dict(content["scaler"])
        self.stepper.load_state_dict(own["stepper"])
        self.extra.clear()
        self.extra.update(plain(content["extra"], "extra", copy=True))
        self.run = content["run"]

        def again() -> None:
            self.metrics.load_state_dict(own["metrics"])
            if own["rng"] is not None:
                restore_rng(own["rng"], self.device)

        again()
        return again

    def _own(self, content: dict[str, Any]) -> dict[str, Any]:
        """This rank's part. With other ranks than there were (after an epoch) everyone has the first one's order of
        data, and random numbers of its own where there was no such rank; the running means start anew."""
        of_ranks = plain(content["of_ranks"], "of_ranks", copy=True)
        if content["ranks"] == self.ranks.count:
            return dict(of_ranks[self.ranks.rank])
        rng = of_ranks[self.ranks.rank]["rng"] if self.ranks.rank < content["ranks"] else None
        return {**of_ranks[0], "rng": rng, "metrics": {"sums": {}, "evaluating": {}}}

    def _load_kept(self, name: str, thing: Any, state: Any) -> None:
        if isinstance(thing, nn.Module):
            tensors.load_model(thing, state)
        else:
            _try(f"{name!r}, kept by loop.keep,", thing.load_state_dict, plain(state, name, copy=True))


def _try(name: str, load: Callable[[Any], object], state: Any) -> None:
    try:
        load(state)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"loop.resume(...): {name} does not take its state from the checkpoint ({type(error).__name__}: {error}); "
            "the models and optimizers are untouched; make it as it was when the checkpoint was saved"
        ) from error


def _is_sharded(thing: object) -> bool:
    return isinstance(thing, nn.Module) and any(map(tensors.is_sharded, thing.parameters()))


def _kept_state(thing: Any) -> Any:
    return tensors.model_state(thing) if isinstance(thing, nn.Module) else thing.state_dict()


def _loader_sizes(loader: PreparedLoader) -> dict[str, Any] | None:
    plan = loader.plan
    if plan is None:
        return None
    return {"samples": plan.samples, "batches": plan.batches, "batch_size": getattr(plan, "batch_size", None)}


def _words(sizes: dict[str, Any] | None) -> str:
    if sizes is None:
        return "a length not known in advance"
    size = f" of {sizes['batch_size']}" if sizes["batch_size"] else ""
    return f"{sizes['samples']} samples in {sizes['batches']} batches{size}"


def _scheduler_state(scheduler: Any) -> Any:
    if not hasattr(scheduler, "state_dict"):
        raise UsageError(
            f"loop.save(...): the scheduler {type(scheduler).__name__} has no state_dict and load_state_dict, so it "
            "cannot be continued; give it both"
        )
    return _without_functions(scheduler.state_dict())


def _without_functions(state: Any) -> Any:
    """Functions are code, which the script brings again; PyTorch's own schedulers leave most of them out as well."""
    if isinstance(state, dict):
        return type(state)({k: _without_functions(v) for k, v in state.items() if not callable(v)})
    if isinstance(state, list):
        return [_without_functions(part) for part in state if not callable(part)]
    return state
