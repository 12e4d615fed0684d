"""FO708: processes that all work on the first GPU: nothing tells each its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument, keyword
from flatout.check.module import Module
from flatout.check.ranks import is_rank, last_word
from flatout.check.rule import Hit, Rule
from flatout.check.words import words

# What is given a rank for another end.
_HARMLESS = frozenset(
    words("print int str init_process_group DistributedSampler info debug log add_argument manual_seed seed")
)
# Anything that chooses a GPU by number, here or in a launcher.
_CHOSEN = re.compile(
    r"set_device|device_id\b|local_process_index|CUDA_VISIBLE_DEVICES|cuda\.device\("
    r"|cuda:\{|cuda:%|[\"']cuda:[\"']|accelerat|lightning|deepspeed|horovod",
    re.I,
)


def find(module: Module) -> Iterator[Hit]:
    if _CHOSEN.search(module.text.text):
        return
    moves = [call for call in module.methods("cuda", "to") if _to_first_gpu(module, call)]
    if not moves or _chooses(module):
        return
    for call in module.calls("torch.distributed.init_process_group"):
        backend = argument(call, 0, "backend")
        if backend is None or module.constant(backend) != "nccl":
            continue
        move = moves[0]
        yield Hit(
            call,
            f"no rank is told its GPU, and `{module.text.short(move)}` (line {move.lineno}) means the first one: all "
            "processes of a machine share it, which NCCL refuses",
            'Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before this line.',
            evidence={"move_line": move.lineno},
        )
        return


def _to_first_gpu(module: Module, call: ast.Call) -> bool:
    """`.cuda()`, `.to("cuda")`, `.to(device)` of a device without a number."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "cuda":
        return not call.args and not keyword(call, "device")
    if not call.args:
        return False
    device = module.origin(call.args[0])
    if isinstance(device, ast.Call) and module.qualified(device.func) == "torch.device" and len(device.args) == 1:
        device = module.origin(device.args[0])
    if isinstance(device, ast.IfExp):
        device = device.body
    return isinstance(device, ast.Constant) and device.value == "cuda"


def _chooses(module: Module) -> bool:
    """Whether some call may be told which GPU to take: by the rank, or by a number that is not known."""
    for call in module.tree.nodes(ast.Call):
        name = last_word(call.func)
        values = [*call.args, *(item.value for item in call.keywords)]
        if name not in _HARMLESS and any(_holds_rank(module, value) for value in values):
            return True
        if name in ("cuda", "to") and call.args and module.fact(call.args[0]).kind == "int":
            return True
        if name == "cuda" and call.args and not isinstance(module.origin(call.args[0]), ast.Constant):
            return True
    return False


def _holds_rank(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return any(_holds_rank(module, item) for item in node.elts)
    return is_rank(module, node)


RULE = Rule("FO708", "all-ranks-on-one-gpu", "high", find, needs=("init_process_group",))
