"""What `loop.prepare` does: models moved, changed as asked, wrapped; optimizers, loaders and schedulers taken in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from flatout.errors import UsageError
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.numerics.autocasting import OutsideSteps
from flatout.loop.options import Options
from flatout.loop.processes import distributed, sharded
from flatout.loop.processes.strategy import choose_strategy, memory_of, states_bytes
from flatout.loop.refusals import check_optimizer, check_scheduler
from flatout.loop.windows.stepping import Stepper


class Preparer:
    """Takes things into a loop: the stepper gets models, optimizers and schedulers, `loaders` gets the loaders."""

    def __init__(
        self,
        stepper: Stepper,
        loaders: list[PreparedLoader],
        before_next: Callable[[], None],
        say: Callable[[str], None],
        inside_step: Callable[[], bool],
    ) -> None:
        self._stepper = stepper
        self._loaders = loaders
        self._before_next = before_next
        self._say = say
        self._inside_step = inside_step
        self._strategy = stepper.settings.strategy
        self._known: list[Any] = []

    def prepare(self, things: Sequence[Any], options: Options) -> tuple[Any, ...]:
        """The things, prepared, in the order given. Models first: sharding replaces the parameters of optimizers."""
        if self._stepper.ranks.count > 1:
            self._decide(things)
        prepared = list(things)
        for models in (True, False):
            for i, thing in enumerate(things):
                if isinstance(thing, nn.Module) == models:
                    prepared[i] = self._prepare(thing, options)
        return tuple(prepared)

    def _decide(self, things: Sequence[Any]) -> None:
        """DDP or FSDP, once for all models, at the first that is prepared."""
        models = [t for t in things if isinstance(t, nn.Module)]
        optimizers = [t for t in things if isinstance(t, Optimizer)]
        if self._strategy == "auto" and models:
            ranks, low_precision = self._stepper.ranks, self._stepper.precision.dtype is not None
            parameters = [p for model in models for p in model.parameters()]
            states = states_bytes(parameters, optimizers, low_precision=low_precision)
            chosen, why = choose_strategy(states, memory_of(self._stepper.device), ranks.count)
            self._strategy = "fsdp" if ranks.any(chosen == "fsdp") else "ddp"
            self._say(f"{ranks.count} processes, strategy {self._strategy} ({why})")

    def _prepare(self, thing: Any, options: Options) -> Any:
        if isinstance(thing, PreparedLoader):  # by another loop: its DataLoader is as it was
            thing = thing.source
        if any(thing is known for known in self._known):
            raise UsageError(
                f"loop.prepare({type(thing).__name__}): it is prepared already; prepare everything once, and use what "
                "prepare gave back"
            )
        prepared = thing
        if isinstance(thing, nn.Module):
            prepared = self._prepare_model(thing, options)
        elif isinstance(thing, Optimizer):
            check_optimizer(thing)
            sharded.repoint(thing)
            options.change_optimizer(thing)
            self._stepper.add_optimizer(thing)
        elif isinstance(thing, DataLoader):
            prepared = self._prepare_loader(thing)
        elif hasattr(thing, "step") and isinstance(getattr(thing, "optimizer", None), Optimizer):
            check_scheduler(thing, self._stepper.settings.schedule)
            self._stepper.schedulers.append(thing)
        else:
            raise UsageError(
                f"loop.prepare(...): cannot prepare a {type(thing).__name__}; it takes models, optimizers, DataLoaders "
                "and learning rate schedulers"
            )
        self._known += [thing, prepared]
        return prepared

    def _prepare_loader(self, loader: DataLoader[Any]) -> PreparedLoader:
        stepper = self._stepper
        prepared = PreparedLoader(
            loader, stepper.device, stepper.ranks, stepper.cursor, before_next=self._before_next, say=self._say
        )
        self._loaders.append(prepared)
        return prepared

    def _prepare_model(self, model: nn.Module, options: Options) -> nn.Module:
        device, precision, ranks = self._stepper.device, self._stepper.precision, self._stepper.ranks
        if any(p.is_meta for p in model.parameters()):
            raise UsageError(
                f"loop.prepare({type(model).__name__}): it has parameters on the meta device, without values; give "
                "it some first (model.to_empty(device=...), then its initialisation or load_state_dict)"
            )
        OutsideSteps.detach_others(precision.scope, model)
        options.change_model(model)
        model = model.to(device)
        if ranks.count > 1:
            model = distributed.settle_batchnorm(model, device, self._say, sync=options.sync_batchnorm)
        options.compile_model(model)
        if precision.dtype is not None:
            OutsideSteps(precision.scope, device.type, precision.dtype).attach(model)
        wrapped = distributed.wrap(
            model, ranks, device, self._strategy, find_unused=options.find_unused, inside_step=self._inside_step
        )
        self._stepper.add_model(wrapped)
        self._stepper.cuda_graphs = self._stepper.cuda_graphs or options.uses_cuda_graphs
        return wrapped
