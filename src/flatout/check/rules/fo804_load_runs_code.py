"""FO804: `torch.load` of weights in a way that runs whatever code the file holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.fixes import add_argument, replace
from flatout.check.module import Module
from flatout.check.ranks import last_word
from flatout.check.rule import Hit, Rule
from flatout.check.rules.fo710_load_on_every_rank import feeds_load_state_dict, given_to_load_state_dict
from flatout.source import Edit, Fix

SAFE_BY_DEFAULT = (2, 6)  # torch.load(weights_only=True): PyTorch 2.6's release notes
FIRST_WITH_OPTION = (1, 13)
# Calls that bring a file from elsewhere and give its path.
_DOWNLOADS = re.compile(r"download|cached_path|cached_file|urlretrieve", re.I)


def find(module: Module) -> Iterator[Hit]:
    given = given_to_load_state_dict(module)
    for call in module.calls("torch.load"):
        if not call.args or any(item.arg in (None, "pickle_module") for item in call.keywords):
            continue
        option = keyword(call, "weights_only")
        shown = module.text.short(call)
        if option is None:
            if (
                module.torch is None
                or module.torch >= SAFE_BY_DEFAULT
                or not feeds_load_state_dict(module, call, given)
            ):
                continue
            version = f"{module.torch[0]}.{module.torch[1]}"
            message = (
                f"what `{shown}` gives goes to `load_state_dict`; with PyTorch {version}, which the project admits, it "
                "also runs any code that the file holds"
            )
        elif _is_false(option) and (source := _download(module, call.args[0])) is not None:
            message = f"`{shown}` runs any code that the file holds, and `{source}` brings that from elsewhere"
        else:
            continue
        yield Hit(call, message, "Say `weights_only=True`.", _fix(module, call, option))


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _download(module: Module, path: ast.expr) -> str | None:
    """What brings the file; None where the path is not known to come from a download."""
    origin = module.origin(path)
    if isinstance(origin, ast.Call) and _DOWNLOADS.search(last_word(origin.func)):
        return ast.unparse(origin.func)
    return None


def _fix(module: Module, call: ast.Call, option: ast.expr | None) -> Fix | None:
    if module.torch is not None and module.torch < FIRST_WITH_OPTION:
        return None
    try:
        edit: Edit = (
            replace(module, option, "True") if option is not None else add_argument(module, call, "weights_only=True")
        )
    except ValueError:
        return None
    return Fix("Say `weights_only=True`", (edit,), "unsafe")


RULE = Rule("FO804", "load-runs-code", "low", find, needs=("torch.load", "load("))
