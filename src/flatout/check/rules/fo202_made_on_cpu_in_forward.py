"""FO202: a tensor made in `forward` without a device: it is on the CPU, wherever the model is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import add_argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import FACTORIES, FROM_DATA, OLD_CONSTRUCTORS, RANDOM
from flatout.check.tree import Function
from flatout.source import Fix

_MOVES = ("to", "cuda", "type_as", "cpu", "tolist", "item", "numpy", "pin_memory")
# A list of positions may stay on the CPU: it indexes a tensor on the GPU, too.
_MAKERS = (FACTORIES | OLD_CONSTRUCTORS) - {"torch.randperm", "torch.sparse_coo_tensor", "torch.polar", "torch.complex"}
_OF_TENSORS = frozenset({"shape", "size", "device", "dim", "view", "dtype"})
_SCALARS = frozenset({"torch.tensor", "torch.as_tensor", "torch.scalar_tensor", "torch.asarray"})


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*sorted(_MAKERS)):
        region = module.region(call)
        if region is None or region.kind != "forward":
            continue
        if (
            not module.fact(call).on_cpu
            or _is_scalar(module, call)
            or _is_moved(module, call)
            or module.is_rare(call)
            or _asks_for_device(module, call)
        ):
            continue
        assert isinstance(region.node, ast.FunctionDef | ast.AsyncFunctionDef)
        given = _tensor_argument(module, region.node)
        where = f"device={given}.device" if given else "device="
        yield Hit(
            call,
            f"`{module.text.short(call)}` is made on the CPU inside `forward`, wherever the model is: "
            "on a GPU it raises or is copied each time",
            f"Give it `{where}`" + ("." if given else " that of the input."),
            _fix(module, call, given),
        )


def _asks_for_device(module: Module, call: ast.Call) -> bool:
    """Whether the code runs only for a certain device: `if not x.is_cuda:`."""
    return any("is_cuda" in (text := ast.unparse(test)) or ".device" in text for test in module.conditions(call))


def _is_scalar(module: Module, call: ast.Call) -> bool:
    """A tensor without dimensions works with tensors on any device, and one random number is for the host."""
    name = module.qualified(call.func)
    if name in _SCALARS:
        return not (call.args and isinstance(call.args[0], ast.List | ast.Tuple | ast.ListComp))
    if name in OLD_CONSTRUCTORS and call.args and isinstance(call.args[0], ast.List) and len(call.args[0].elts) == 1:
        return True  # `torch.IntTensor([n])`: a number in a box
    if name in RANDOM and _is_one(module, call.args[-1] if call.args else None):
        return True  # thrown for the host's own decision: `if torch.rand(1) < p`
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Tuple | ast.List) and not first.elts


def _is_one(module: Module, size: ast.expr | None) -> bool:
    if isinstance(size, ast.Tuple | ast.List):
        return all(module.constant(item) == 1 for item in size.elts)
    return size is not None and module.constant(size) == 1


def _is_moved(module: Module, call: ast.Call) -> bool:
    """Whether it goes to a device at once, or under the name that it is given, or only says where or how many."""
    if _is_used_by_host(module, call):
        return True
    above = module.tree.parent(call)
    if isinstance(above, ast.Subscript) and call is above.slice:
        return True
    if isinstance(above, ast.Call) and module.qualified(above.func) == "torch.nn.Parameter":
        return True
    statement = module.tree.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    return isinstance(target, ast.Name) and _goes_elsewhere(module, target.id, statement)


def _goes_elsewhere(module: Module, name: str, made: ast.stmt) -> bool:
    """Whether what the statement calls `name`, or what is made of it later, is moved, indexes, or is read."""
    function = module.tree.function(made) or module.tree.root
    derived = _derived(name, function, made.lineno)
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in derived]
    read = [use for use in names if isinstance(use.ctx, ast.Load) and use.lineno > made.lineno]
    own = [use for use in read if use.id == name]
    if own and all(_is_read_by_number(module, use) for use in own):
        return True
    return any(_is_taken_elsewhere(module, use) for use in read)


def _derived(name: str, function: ast.AST, line: int) -> set[str]:
    """`name` and the names that are assigned something made of it below `line`, in the order of the source."""
    derived = {name}
    bindings = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.For) and node.lineno > line]
    for node in sorted(bindings, key=lambda node: node.lineno):
        value, targets = (node.value, node.targets) if isinstance(node, ast.Assign) else (node.iter, [node.target])
        if any(isinstance(part, ast.Name) and part.id in derived for part in ast.walk(value)):
            parts = (part for target in targets for part in ast.walk(target))
            derived.update(part.id for part in parts if isinstance(part, ast.Name))
    return derived


def _is_read_by_number(module: Module, use: ast.Name) -> bool:
    """`sizes[0]`: the host looks at it."""
    above = module.tree.parent(use)
    return isinstance(above, ast.Subscript) and use is above.value and isinstance(module.constant(above.slice), int)


def _is_taken_elsewhere(module: Module, use: ast.Name) -> bool:
    """Whether an expression that begins with the name is moved, or the name is an index."""
    above = module.tree.parent(use)
    return (isinstance(above, ast.Subscript) and use is above.slice) or _is_used_by_host(module, use)


def _is_used_by_host(module: Module, node: ast.expr) -> bool:
    """Whether an expression that holds `node` is moved, or is what the host decides, counts or makes sizes by."""
    below: ast.AST = node
    above = module.tree.parent(node)
    while isinstance(above, ast.expr | ast.keyword | ast.FormattedValue):
        if isinstance(above, ast.Attribute) and above.attr in _MOVES:
            return True
        if isinstance(above, ast.Slice | ast.FormattedValue) or (isinstance(above, ast.IfExp) and below is above.test):
            return True
        if isinstance(above, ast.Call) and below is not above.func and _takes_numbers(module, above):
            return True
        below, above = above, module.tree.parent(above)
    return isinstance(above, ast.If | ast.While) and below is above.test


def _takes_numbers(module: Module, call: ast.Call) -> bool:
    """`range(n)`, `int(n)`, `torch.zeros(n)`: what they are given is a number to the host."""
    if isinstance(call.func, ast.Name):
        return call.func.id in ("range", "int", "float", "bool", "min", "max", "print")
    return module.qualified(call.func) in FACTORIES - FROM_DATA


def _tensor_argument(module: Module, forward: Function) -> str | None:
    """The first argument that is used as a tensor: its shape, size or device is asked for, or it says so."""
    for argument in forward.args.args[1:]:
        if module.functions.annotated(argument).is_tensor:
            return argument.arg
        for node in ast.walk(forward):
            if isinstance(node, ast.Attribute) and node.attr in _OF_TENSORS and _is_name(node.value, argument.arg):
                return argument.arg
    return None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _fix(module: Module, call: ast.Call, given: str | None) -> Fix | None:
    if (
        given is None
        or module.qualified(call.func) in OLD_CONSTRUCTORS
        or any(item.arg is None for item in call.keywords)
    ):
        return None
    function = module.tree.function(call)
    rebound = function is None or len(module.scopes.bindings(function, given)) > 1
    try:
        edit = add_argument(module, call, f"device={given}.device")
    except ValueError:
        return None
    return None if rebound else Fix(f"Make it with `device={given}.device`", (edit,), "unsafe")


RULE = Rule("FO202", "made-on-cpu-in-forward", "high", find, needs=("forward",))
