"""What must be known of ATen's operators: their names, what they write to, whether they draw random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Operator:
    """What must be known of one ATen operator overload.

    Attributes:
        overload: the ``torch._ops.OpOverload``.
        name: as ``aten::add.Tensor``.
        written: for each return value, the position or keyword of the argument that it is, or None where it is new.
        out_names: keyword arguments that are written to (``out=``).
        random: draws random numbers.
        makes: has an argument that names the device of what it makes.
    """

    __slots__ = ("arguments", "makes", "name", "number", "out_names", "overload", "random", "writes", "written")

    def __init__(self, number: int, overload: Any) -> None:
        schema = overload._schema
        self.number = number
        self.overload = overload
        self.name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.arguments = tuple(argument.name for argument in schema.arguments)
        self.random = torch.Tag.nondeterministic_seeded in overload.tags
        self.makes = "device" in self.arguments
        sources: dict[str, int | str] = {}
        self.writes: list[int | str] = []
        out_names = []
        for position, argument in enumerate(schema.arguments):
            alias = argument.alias_info
            if alias is None or not alias.is_write:
                continue
            where: int | str = argument.name if argument.kwarg_only else position
            self.writes.append(where)
            if argument.kwarg_only:
                out_names.append(argument.name)
            for mark in alias.before_set:
                sources[mark] = where
        self.out_names = frozenset(out_names)
        self.written: tuple[int | str | None, ...] = tuple(
            next((sources[mark] for mark in returned.alias_info.before_set if mark in sources), None)
            if returned.alias_info is not None
            else None
            for returned in schema.returns
        )

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the operator with arguments as a kernel got them.

        A Python number that C++ wrapped in a tensor comes to kernels as a number. Most operators take it back for a
        tensor; for the few that do not, their overload for numbers gives the same.
        """
        try:
            return self.overload(*args, **kwargs)
        except RuntimeError as error:
            if "Expected a value of type 'Tensor'" not in str(error):
                raise
            return self.overload.overloadpacket(*args, **kwargs)


_operators: dict[str, Operator] = {}


def operator(name: str) -> Operator:
    """The operator of that name, as ``aten::add.Tensor``."""
    known = _operators.get(name)
    if known is None:
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        known = _operators[name] = Operator(len(_operators), found)
    return known


def operator_of(overload: Any) -> Operator:
    """The operator of an overload object."""
    schema = overload._schema
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    known = _operators.get(name)
    if known is None:
        known = _operators[name] = Operator(len(_operators), overload)
    return known
