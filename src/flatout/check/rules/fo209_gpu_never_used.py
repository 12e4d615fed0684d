"""FO209: a script that picks the GPU and then trains on the CPU: the device is not used, or the model is not moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fact import UNKNOWN
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scopes import Binding, Scope
from flatout.check.tree import Function
from flatout.check.words import words

# What a device is used for when nothing is put on it.
_ONLY_SAID = frozenset({"print", "str", "repr", "info", "debug", "warning", "format", "write", "log"})
# What may be done with a model without moving it.
_METHODS = frozenset(
    words(
        "parameters named_parameters train eval state_dict load_state_dict zero_grad requires_grad_ modules children "
        "named_modules named_children apply double float half bfloat16"
    )
)


def find(module: Module) -> Iterator[Hit]:
    if not module.regions.training_loops:
        return
    by_other_means = bool(module.methods("cuda")) or _goes_elsewhere(module)
    for scope in _scopes(module):
        for name, bindings in module.scopes.names(scope).items():
            binding = bindings[0]
            if len(bindings) != 1 or binding.kind != "assign" or binding.path or binding.value is None:
                continue
            if not by_other_means and _picks_gpu(module, binding.value):
                yield from _unused(module, scope, name, binding)
            elif module.fact(binding.value).kind == "Module":
                yield from _left_behind(module, scope, name, binding)


def _scopes(module: Module) -> list[Scope]:
    return [module.tree.root, *module.tree.nodes(ast.FunctionDef)]


# --- a device that nothing is put on ----------------------------------------------------------------------------------


def _picks_gpu(module: Module, value: ast.expr | None) -> bool:
    """`torch.device("cuda" if torch.cuda.is_available() else "cpu")`, or the string alone."""
    if isinstance(value, ast.IfExp):
        return module.fact(value).kind in ("str", "device") and module.fact(value).on_gpu
    return (
        isinstance(value, ast.Call)
        and module.qualified(value.func) == "torch.device"
        and module.fact(value).on_gpu
        and bool(value.args)
        and module.fact(value.args[0]).kind == "str"
    )


def _unused(module: Module, scope: Scope, name: str, binding: Binding) -> Iterator[Hit]:
    if _is_exported(module, scope) or not _is_only_said(module, scope, name):
        return
    assert isinstance(binding.node, ast.Assign | ast.AnnAssign)
    yield Hit(
        binding.node,
        f"`{name}` is picked here and nothing is put on it: the program trains on the CPU",
        f"Move the model before the optimizer is made, `model.to({name})`, and each batch in the loop.",
    )


def _is_only_said(module: Module, scope: Scope, name: str, depth: int = 2) -> bool:
    return all(_says(module, use, depth) for use in module.scopes.uses(scope, name))


def _says(module: Module, use: ast.Name, depth: int) -> bool:
    """Whether a use of the device is only a message, a comparison, or an argument of which no more is made."""
    for above in module.tree.ancestors(use):
        if isinstance(above, ast.FormattedValue | ast.Compare):
            return True
        if isinstance(above, ast.Call):
            if (given := _parameter(module, above, use)) is not None:
                return depth > 0 and _is_only_said(module, given[0], given[1], depth - 1)
            func = above.func
            called = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            return called in _ONLY_SAID
        if not isinstance(above, ast.Attribute | ast.BinOp | ast.JoinedStr):
            return False
    return False


def _parameter(module: Module, call: ast.Call, value: ast.expr) -> tuple[Function, str] | None:
    """The local function that a call runs, and its parameter that is given `value`."""
    function = module.functions.definition(call.func)
    if not isinstance(function, ast.FunctionDef) or isinstance(module.tree.parent(function), ast.ClassDef):
        return None
    plain = [*function.args.posonlyargs, *function.args.args]
    if value in call.args:
        index = call.args.index(value)
        return (function, plain[index].arg) if index < len(plain) else None
    named = next((item.arg for item in call.keywords if item.value is value), None)
    return (function, named) if named in {argument.arg for argument in (*plain, *function.args.kwonlyargs)} else None


def _is_exported(module: Module, scope: Scope) -> bool:
    """Whether other code may use a module's variable: then the file has no loop at its top, and no main."""
    if not isinstance(scope, ast.Module):
        return False
    text = module.text.text
    at_top = any(module.tree.function(loop) is None for loop in module.regions.training_loops)
    return not at_top and "__main__" not in text


_OTHERS = words("accelerate lightning pytorch_lightning fabric deepspeed ignite composer transformers fastai")


def _goes_elsewhere(module: Module) -> bool:
    """Whether a GPU may be used by other means: a library that moves things, a default device, another device."""
    if module.changes_default_device:
        return True
    imported = {alias.name.partition(".")[0] for node in module.tree.nodes(ast.Import) for alias in node.names}
    imported |= {(node.module or "").partition(".")[0] for node in module.tree.nodes(ast.ImportFrom)}
    if imported & set(_OTHERS):
        return True
    for call in module.methods("to"):
        given = [*call.args, *(item.value for item in call.keywords if item.arg in ("device", None))]
        if any(module.fact(value).kind not in ("dtype", "bool") for value in given):
            return True
    calls = module.tree.nodes(ast.Call)
    return any(item.arg == "device" for call in calls for item in call.keywords)


# --- a model that is left on the CPU ----------------------------------------------------------------------------------


def _left_behind(module: Module, scope: Scope, name: str, binding: Binding) -> Iterator[Hit]:
    """A model that is given batches on the GPU and is never moved there itself."""
    fact = module.fact(binding.value) if binding.value is not None else UNKNOWN
    if fact.device != "cpu" or not isinstance(binding.value, ast.Call) or not _has_parameters(module, fact.class_name):
        return
    applied = _applications(module, scope, name)
    on_gpu = [call for call in applied or () if call.args and module.fact(call.args[0]).on_gpu]
    if not on_gpu or module.changes_default_device:
        return
    call = on_gpu[0]
    yield Hit(
        binding.value,
        f"`{name}` stays on the CPU, and `{module.text.short(call)}` on line {call.lineno} gives it "
        f"`{module.text.short(call.args[0], 30)}`, which is on the GPU: it raises",
        f"Move the model, too: `{name}.to(...)`, before the optimizer is made.",
    )


def _applications(module: Module, scope: Scope, name: str, depth: int = 2) -> list[ast.Call] | None:
    """The calls of the model; None where something else may be done with it, such as moving it."""
    found: list[ast.Call] = []
    for use in module.scopes.uses(scope, name):
        above = module.tree.parent(use)
        if isinstance(above, ast.keyword):
            above = module.tree.parent(above)
        if isinstance(above, ast.Attribute) and above.attr in _METHODS:
            continue
        if not isinstance(above, ast.Call):
            return None
        if above.func is use:
            found.append(above)
        elif (given := _parameter(module, above, use)) is not None and depth:
            inner = _applications(module, given[0], given[1], depth - 1)
            if inner is None or len(module.scopes.bindings(given[0], given[1])) != 1:
                return None
            found += inner
        elif not (isinstance(above.func, ast.Name) and above.func.id in ("print", "len", "isinstance")):
            return None
    return found


def _has_parameters(module: Module, class_name: str | None) -> bool:
    """Whether a layer surely holds weights: a local class that makes layers, or one of torch.nn's that has some."""
    class_ = module.classes.local_layer(class_name)
    if class_ is not None:
        values = [value for several in module.classes.self_assignments(class_).values() for value in several if value]
        held = [module.fact(value) for value in values]
        return any(fact.kind == "Module" and _has_parameters(module, fact.class_name) for fact in held) or any(
            isinstance(value, ast.Call) and module.qualified(value.func) in _WITH_PARAMETERS for value in values
        )
    last = (class_name or "").rpartition(".")[2]
    return last.startswith(("Linear", "Conv", "Embedding", "BatchNorm", "LayerNorm", "Transformer", "LSTM", "GRU"))


_WITH_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.Sequential", "torch.nn.ModuleList"})

RULE = Rule("FO209", "gpu-never-used", "high", find, needs=("cuda",))
