"""What calls of PyTorch's functions, and methods of known values, give."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from flatout.check import torch_api as api
from flatout.check.devices import argument, asks_for_gpu, device_of, devices_in_call, keyword, read_move
from flatout.check.fact import UNKNOWN, Fact, join
from flatout.check.options import options

if TYPE_CHECKING:
    from flatout.check.facts import Facts

_LOSSES = "torch.nn.functional."
# What gives several tensors: always, or once a dimension is named.
ALWAYS_SEVERAL = frozenset({"sort", "unbind", "meshgrid", "svd", "qr", "topk", "split", "chunk", "broadcast_tensors"})
SEVERAL_WITH_DIMENSION = frozenset({"max", "min", "median", "mode", "kthvalue", "cummax", "cummin"})
_WRAPPERS = frozenset({api.DATA_PARALLEL, api.DISTRIBUTED_DATA_PARALLEL, "torch.compile"})
_BUILTINS = {
    "float": "float",
    "int": "int",
    "bool": "bool",
    "str": "str",
    "len": "int",
    "round": "number",
    "repr": "str",
}


def call_fact(facts: Facts, call: ast.Call, name: str) -> Fact | None:
    """What a call of the function or class with qualified `name` gives; None where the table does not know."""
    if name == "torch.device":
        device = argument(call, 0, "device") or keyword(call, "type")
        return Fact(kind="device", device=device_of(facts, device) if device else None)
    if name in api.FACTORIES:
        return _made(facts, call, name)
    if name in api.ON_CPU or name in api.OLD_CONSTRUCTORS:
        return Fact(
            kind="Tensor", device="cpu", dtype="torch.float32" if name == "torch.Tensor" else None, pinned=False
        )
    if name.startswith("torch.cuda.") and name.rpartition(".")[2].endswith("Tensor"):
        return Fact(kind="Tensor", device="cuda")
    if name in api.LIKE:
        like = facts.of(call.args[0]) if call.args else UNKNOWN
        device = keyword(call, "device")
        return Fact(kind="Tensor", device=device_of(facts, device) if device else like.device, dtype=like.dtype)
    if name in _WRAPPERS:
        inner = facts.of(call.args[0]) if call.args else UNKNOWN
        return replace(inner, class_name=name) if inner.kind == "Module" else Fact(kind="Module", class_name=name)
    if name == "torch.nn.Parameter":
        inner = facts.of(call.args[0]) if call.args else UNKNOWN
        return replace(inner, kind="Tensor", has_graph=False)
    if name in api.LOADERS:
        return _loader(facts, call, name)
    if name in api.SUBSETS or name.startswith("torchvision.datasets."):
        return _dataset(facts, call, name)
    if name in api.SCALERS:
        return Fact(kind="GradScaler", class_name=name)
    if name.startswith("torch.optim.lr_scheduler."):
        return Fact(kind="Scheduler", class_name=name)
    if name.startswith("torch.optim.") and name.rpartition(".")[2][:1].isupper():
        return Fact(kind="Optimizer", class_name=name)
    if name.startswith("torch.nn.") and name.count(".") == 2 and name.rpartition(".")[2][:1].isupper():
        return Fact(kind="Module", device="cpu", class_name=name)
    if name.startswith("torchvision.models.") and call.func:
        return Fact(kind="Module", device="cpu", class_name=name)
    if name == "accelerate.Accelerator":
        return Fact(kind="Accelerator", class_name=name)
    if name.startswith(_LOSSES) or (name.startswith("torch.") and name.count(".") == 1):
        return _function(facts, call, name)
    if name in api.ARRAYS:
        return Fact(kind="ndarray")
    if name in ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "rich.progress.track"):
        return facts.of(call.args[0]) if call.args else UNKNOWN
    return None


def builtin_fact(facts: Facts, call: ast.Call, name: str) -> Fact | None:
    """What a call of Python's own `name` gives."""
    if name in _BUILTINS:
        return Fact(kind=_BUILTINS[name])
    if name == "enumerate" and call.args:
        return Fact(
            kind="iterator",
            element=Fact(kind="tuple", items=(Fact(kind="int"), facts.of(call.args[0]).element or UNKNOWN)),
        )
    if name == "zip":
        return Fact(
            kind="iterator", element=Fact(kind="tuple", items=tuple(facts.of(a).element or UNKNOWN for a in call.args))
        )
    if name == "range":
        return Fact(kind="iterator", element=Fact(kind="int"))
    if name in ("list", "reversed", "sorted", "iter", "tqdm", "track") and call.args:
        return replace(facts.of(call.args[0]), kind="iterator")
    if name == "next" and call.args:
        return facts.of(call.args[0]).element or UNKNOWN
    return None


def method_fact(facts: Facts, call: ast.Call, method: ast.Attribute, owner: Fact) -> Fact | None:
    """What `owner.method(...)` gives; None where it is not known."""
    name = method.attr
    if owner.is_tensor:
        return _tensor_method(facts, call, name, owner)
    if owner.is_gpu_tensor and name in api.TENSOR_METHODS:
        return _tensor_method(facts, call, name, replace(owner, kind="Tensor"))
    if owner.kind == "Module":
        if name in (
            "to",
            "cuda",
            "cpu",
            "half",
            "float",
            "double",
            "bfloat16",
            "eval",
            "train",
            "requires_grad_",
            "apply",
        ):
            return replace(
                owner, device=devices_in_call(facts, call) or owner.device, dtype=api.DTYPES.get(name, owner.dtype)
            )
        return None
    if name in ("to", "cuda", "cpu") and (move := read_move(facts, call)) is not None:
        device = devices_in_call(facts, call)
        if move.device is not None or move.like is not None:  # a tensor or a module, by what the method is
            return Fact(kind=None, device=device)
    if owner.element is not None and owner.kind is None and not call.args and name in ("items", "values"):
        inner = Fact(kind="tuple", items=(UNKNOWN, owner.element)) if name == "items" else owner.element
        return Fact(kind="iterator", element=inner)
    if owner.kind == "ndarray" and name in api.ARRAY_METHODS:
        return Fact(kind="ndarray")
    if name in ("pin_memory",):
        return Fact(kind="Tensor", device="cpu", pinned=True)
    if name == "item" and not call.args:
        return Fact(kind="number")
    return None


def _tensor_method(facts: Facts, call: ast.Call, name: str, owner: Fact) -> Fact:
    if name in api.NOT_TENSORS:
        kind = api.NOT_TENSORS[name]
        return owner if kind == "Tensor" else Fact(kind=kind)
    if name in ("to", "cuda", "cpu"):
        moved_to = devices_in_call(facts, call)
        move = read_move(facts, call)
        stays = move is not None and move.device is None and move.like is None and move.unclear is None
        return replace(owner, device=owner.device if stays else moved_to, pinned=owner.pinned if stays else None)
    if name in ("detach", "detach_", "clone", "contiguous", "data"):
        return replace(owner, has_graph=owner.has_graph and not name.startswith("detach"), pinned=None)
    if name == "pin_memory":
        return replace(owner, pinned=True)
    if name in ("size", "tolist"):
        return UNKNOWN
    if name.startswith("new_"):
        device = keyword(call, "device")
        return Fact(kind="Tensor", device=device_of(facts, device) if device else owner.device, dtype=owner.dtype)
    if name in ALWAYS_SEVERAL or (name in SEVERAL_WITH_DIMENSION and (call.args or call.keywords)):
        return Fact(kind="tuple", element=replace(owner, dtype=None))
    return replace(
        owner, dtype=api.DTYPES.get(name, owner.dtype if name in ("view", "reshape", "float") else None), pinned=None
    )


def _made(facts: Facts, call: ast.Call, name: str) -> Fact:
    device = keyword(call, "device")
    dtype = keyword(call, "dtype")
    where: str | None
    if device is not None:
        where = "cpu" if facts.of(device).kind == "None" else device_of(facts, device)
    elif name in ("torch.as_tensor", "torch.asarray", "torch.tensor", "torch.normal", "torch.complex", "torch.polar"):
        data = facts.of(call.args[0]) if call.args else UNKNOWN
        where = data.device if data.is_tensor else "cpu" if data.kind is not None else None
    else:
        where = "cpu"
    options = any(item.arg is None for item in call.keywords)  # **kwargs may name a device
    if where == "cpu" and device is None and (options or facts.module.changes_default_device):
        where = None
    pinned = keyword(call, "pin_memory")
    return Fact(
        kind="Tensor",
        device=where,
        dtype=facts.of(dtype).dtype if dtype is not None else None,
        pinned=facts.of(pinned).constant if pinned is not None else False,
    )


def _loader(facts: Facts, call: ast.Call, name: str) -> Fact:
    given = options(facts.module, call, api.LOADER_PARAMETERS)
    pinned: bool | None
    if "pin_memory" in given.values:
        pinned = is_pinned(facts, given.values["pin_memory"])
    else:
        pinned = False if given.is_whole else None
    own = "collate_fn" in given.values or not given.is_whole
    # What the default collate_fn gives is on the CPU; one's own may do anything, but pinning takes tensors of the CPU.
    where = None if own and not pinned else "cpu"
    part = Fact(device=where, pinned=pinned)
    batch = Fact(element=part) if own else replace(part, element=part)
    return Fact(kind="DataLoader", class_name=name, element=batch, pinned=pinned, call=call)


def _dataset(facts: Facts, call: ast.Call, name: str) -> Fact:
    """A data set, or parts of one, which are read as it is."""
    if name not in api.SUBSETS:
        return Fact(kind="Dataset", class_name=name)
    whole = facts.of(call.args[0]) if call.args else UNKNOWN
    if whole.kind != "Dataset":
        return Fact(kind="Dataset")
    return whole if name.endswith(".Subset") else Fact(kind="list", element=whole)


def is_pinned(facts: Facts, value: ast.expr) -> bool | None:
    """What `pin_memory=value` comes to where there is a GPU; None where it cannot be told."""
    constant = facts.of(value).constant
    if isinstance(constant, bool):
        return constant
    return True if asks_for_gpu(facts, value) else None


def _function(facts: Facts, call: ast.Call, name: str) -> Fact | None:
    last = name.rpartition(".")[2]
    if name in api.NO_TENSOR_FUNCTIONS or last[:1].isupper() or last.startswith("_"):
        return None
    if last in ALWAYS_SEVERAL or (last in SEVERAL_WITH_DIMENSION and (len(call.args) > 1 or call.keywords)):
        return Fact(kind="tuple", element=Fact(kind="Tensor"))
    values = [facts.of(value) for value in (*call.args, *(item.value for item in call.keywords))]
    for value in call.args:
        if isinstance(value, ast.List | ast.Tuple):  # torch.cat([a, b])
            values.extend(facts.of(item) for item in value.elts[:16])
    for fact in list(values):
        if fact.element is not None:
            values.append(fact.element)
        values.extend(fact.items or ())
    tensors = [fact for fact in values if fact.is_tensor]
    device = next((fact.device for fact in values if fact.on_gpu), None)
    if device is None and tensors and all(fact.on_cpu for fact in tensors):
        device = "cpu" if join(tensors).device == "cpu" and all(fact.kind for fact in values) else None
    return Fact(kind="Tensor", device=device, has_graph=any(fact.has_graph for fact in tensors))
