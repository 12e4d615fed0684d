"""Infers what expressions are, from the assignments, calls and classes of one module."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from flatout.check.devices import device_of, devices_in_call
from flatout.check.fact import NUMBERS, UNKNOWN, Fact, join
from flatout.check.hints import MODELS, hint
from flatout.check.known_calls import builtin_fact, call_fact, method_fact
from flatout.check.scopes import Binding
from flatout.check.torch_api import DTYPE_ALIASES, DTYPE_NAMES, TENSOR_ATTRIBUTES, TENSOR_METHODS
from flatout.check.tree import FUNCTIONS, Function

if TYPE_CHECKING:
    from flatout.check.module import Module

_OPERATIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript)  # what makes a new tensor
DEEPEST = 40  # nested questions; a chain of 10,000 operands is not worth an answer


class Facts:
    """Answers `of(expression)`, each once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[ast.AST, Fact] = {}
        self._depth = 0

    def of(self, node: ast.expr) -> Fact:
        """What `node` is. A question that comes back to itself, or goes too deep, is answered with "not known"."""
        known = self._known.get(node)
        if known is not None:
            return known
        if self._depth >= DEEPEST:
            return UNKNOWN
        self._known[node] = UNKNOWN
        self._depth += 1
        try:
            infer = getattr(self, f"_of_{type(node).__name__}", None)
            fact: Fact = infer(node) if infer else UNKNOWN
            if fact.has_graph and isinstance(node, _OPERATIONS) and self.module.grad_is_off(node):
                fact = replace(fact, has_graph=False)
        finally:
            self._depth -= 1
        self._known[node] = fact
        return fact

    # --- literals -----------------------------------------------------------------------------------------------------

    def _of_Constant(self, node: ast.Constant) -> Fact:
        value = node.value
        kind = "None" if value is None else type(value).__name__
        device = value.partition(":")[0] if isinstance(value, str) and value else None
        return Fact(kind=kind, constant=value, device=device if device in DEVICE_WORDS else None)

    def _of_JoinedStr(self, node: ast.JoinedStr) -> Fact:
        first = node.values[0] if node.values else None
        text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        return Fact(kind="str", device="cuda" if text.startswith("cuda:") else None)

    def _of_List(self, node: ast.List) -> Fact:
        held = node.elts[:16] or self.module.functions.appended_to(node)
        return Fact(kind="list", element=join([self.of(item) for item in held]) if held else None)

    def _of_Tuple(self, node: ast.Tuple) -> Fact:
        if len(node.elts) > 16 or any(isinstance(item, ast.Starred) for item in node.elts):
            return Fact(kind="tuple")
        return Fact(kind="tuple", items=tuple(self.of(item) for item in node.elts))

    def _of_ListComp(self, node: ast.ListComp) -> Fact:
        return Fact(kind="list", element=self.of(node.elt))

    def _of_GeneratorExp(self, node: ast.GeneratorExp) -> Fact:
        return Fact(kind="iterator", element=self.of(node.elt))

    def _of_Dict(self, node: ast.Dict) -> Fact:
        return Fact(kind="dict")

    def _of_DictComp(self, node: ast.DictComp) -> Fact:
        return Fact(kind="dict", element=self.of(node.value))

    # --- names and attributes -----------------------------------------------------------------------------------------

    def _of_Name(self, node: ast.Name) -> Fact:
        qualified = self.module.qualified(node)
        if qualified in DTYPE_NAMES:
            return Fact(kind="dtype", dtype=DTYPE_ALIASES.get(qualified, qualified))
        bindings = self.module.scopes.reaching(node.id, node)
        fact = join([self.of_binding(binding) for binding in bindings])
        if fact.kind == "Module":
            return self._moved(fact, self.module.classes.moves_of_name(node))
        is_open = not fact.has_graph or fact.device is None
        if fact.kind in (None, "Tensor") and is_open and self.module.losses.is_backpropagated(node):
            return self._loss(fact)
        is_given = not bindings or any(binding.kind == "argument" for binding in bindings)
        is_given = is_given or node.id in MODELS  # `model = build(config)`
        return hint(node.id) if fact.kind is None and fact.device is None and is_given else fact

    def _loss(self, fact: Fact) -> Fact:
        """What `.backward()` is called on: a tensor with its graph, on the GPU where the program uses one."""
        device = fact.device or ("cuda" if self.module.uses_gpu else None)
        return replace(fact, kind="Tensor", device=device, has_graph=True)

    def _of_Attribute(self, node: ast.Attribute) -> Fact:
        qualified = self.module.qualified(node)
        if qualified in DTYPE_NAMES:
            return Fact(kind="dtype", dtype=DTYPE_ALIASES.get(qualified, qualified))
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self.of_self(node)
        owner = self.of(node.value)
        if node.attr == "device" and (owner.is_tensor or owner.kind == "Module"):
            return Fact(kind="device", device=owner.device)
        if node.attr == "device" and owner.class_name == "accelerate.Accelerator":
            return Fact(kind="device", device="cuda")
        if node.attr == "type" and owner.kind == "device":
            return Fact(kind="str", device=owner.device)
        if owner.is_tensor:
            if node.attr in TENSOR_ATTRIBUTES:
                return replace(owner, has_graph=owner.has_graph and node.attr not in ("data", "grad"))
            if node.attr == "shape":
                return Fact(kind="size")
            if node.attr in ("ndim", "itemsize", "nbytes"):
                return Fact(kind="int")
            if node.attr in ("is_cuda", "requires_grad"):
                return Fact(kind="bool")
            return UNKNOWN
        return hint(node.attr) if owner.kind is None and qualified is None else UNKNOWN

    def of_self(self, node: ast.Attribute) -> Fact:
        """What `self.name` is: all that the class assigns to it."""
        class_ = self.module.tree.class_(node)
        if class_ is None:
            return UNKNOWN
        assigned = self.module.classes.self_assignments(class_).get(node.attr, [])
        fact = join([self.of(value) if value is not None else UNKNOWN for value in assigned])
        if fact.kind == "Module":
            return self._moved(fact, self.module.classes.moves_of_self(class_, node.attr))
        if fact.kind is None and fact.device is None:
            return hint(node.attr)
        return fact

    def _moved(self, fact: Fact, moves: list[ast.Call]) -> Fact:
        devices = [device for call in moves if (device := devices_in_call(self, call)) is not None]
        return replace(fact, device=devices[-1]) if devices else fact

    def of_binding(self, binding: Binding) -> Fact:
        """What a binding makes of its name."""
        if binding.kind == "argument":
            return self._of_argument(binding)
        if binding.value is None:
            return UNKNOWN
        if binding.kind == "augment":
            return self._of_augmented(binding)
        fact = self.of(binding.value)
        if binding.kind == "loop":
            fact = fact.element or UNKNOWN
        elif binding.kind == "with":
            fact = fact if fact.kind in ("Module", "Tensor") else UNKNOWN
        for index in binding.path:
            known = fact.items is not None and index < len(fact.items)
            fact = fact.items[index] if fact.items is not None and known else fact.element or UNKNOWN
        return fact

    def _of_augmented(self, binding: Binding) -> Fact:
        assert isinstance(binding.node, ast.AugAssign)
        target, added = self.of(binding.node.target), self.of(binding.node.value)
        if added.is_tensor and target.kind is None:  # the first time round: number += tensor is a tensor from then on
            return added
        return self._combined([target, added])

    def _of_argument(self, binding: Binding) -> Fact:
        assert isinstance(binding.node, ast.arg)
        annotated = self.module.functions.annotated(binding.node)
        passed = [self.of(value) for value in self.module.functions.passed_to(binding.node)]
        fact = join(passed) if passed else UNKNOWN
        if binding.value is not None and passed:
            return fact if fact.kind == self.of(binding.value).kind else replace(fact, constant=None)
        if fact == UNKNOWN and annotated in (UNKNOWN, Fact(kind="Tensor")) and self._is_given_to_forward(binding.node):
            return Fact(kind=annotated.kind, device="cuda")  # where the model is: what else it is, its use tells
        return annotated if fact == UNKNOWN else fact

    def _is_given_to_forward(self, argument: ast.arg) -> bool:
        """Whether it is a plain argument of a layer's `forward`, in a program that uses a GPU."""
        arguments = self.module.tree.parent(argument)
        forward = self.module.tree.parent(arguments) if arguments else None
        if not isinstance(forward, FUNCTIONS) or forward.name != "forward" or not self.module.uses_gpu:
            return False
        class_ = self.module.tree.parent(forward)
        required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)]
        if argument not in required or not isinstance(class_, ast.ClassDef) or not self.module.classes.is_layer(class_):
            return False
        return any(self._is_used_as_tensor(use) for use in self.module.scopes.uses(forward, argument.arg))

    def _is_used_as_tensor(self, use: ast.Name) -> bool:
        """Whether a variable is treated here as only a tensor can be: a method, a layer or a function of PyTorch's."""
        above = self.module.tree.parent(use)
        if isinstance(above, ast.Attribute):
            return above.attr in TENSOR_METHODS or above.attr in ("shape", "device", "dtype")
        if isinstance(above, ast.Subscript):
            return use is above.value and isinstance(above.slice, ast.Name | ast.Tuple | ast.Compare)
        if isinstance(above, ast.Call) and use in above.args:
            name = self.module.qualified(above.func) or ""
            return name.startswith(("torch.nn.functional.", "torch.")) or self._is_own_layer(above.func)
        masks = self.module.tree.parent(above) if isinstance(above, ast.Compare) else None
        return isinstance(masks, ast.BinOp) and isinstance(masks.op, ast.BitAnd | ast.BitOr)

    def _is_own_layer(self, func: ast.expr) -> bool:
        return isinstance(func, ast.Attribute) and self.of(func).kind == "Module"

    # --- operators ----------------------------------------------------------------------------------------------------

    def _of_BinOp(self, node: ast.BinOp) -> Fact:
        left, right = self.of(node.left), self.of(node.right)
        fact = self._combined([left, right])
        masks = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor) and left.dtype == right.dtype == "torch.bool"
        return replace(fact, dtype="torch.bool") if fact.is_tensor and masks else fact

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Fact:
        operand = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return Fact(kind="bool")
        if isinstance(node.op, ast.USub) and isinstance(operand.constant, int | float):
            return replace(operand, constant=-operand.constant)
        return operand

    def _of_Compare(self, node: ast.Compare) -> Fact:
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return Fact(kind="bool")
        fact = self._combined([self.of(item) for item in (node.left, *node.comparators)])
        return replace(fact, dtype="torch.bool", has_graph=False) if fact.is_tensor else Fact(kind="bool")

    def _of_IfExp(self, node: ast.IfExp) -> Fact:
        body, orelse = self.of(node.body), self.of(node.orelse)
        if body.device != orelse.device and (body.on_gpu or orelse.on_gpu) and body.kind == orelse.kind:
            # "cuda" if available else "cpu": on a machine with a GPU it is the GPU.
            return body if body.on_gpu else orelse
        return join([body, orelse])

    def _of_BoolOp(self, node: ast.BoolOp) -> Fact:
        return join([self.of(value) for value in node.values])

    def _of_NamedExpr(self, node: ast.NamedExpr) -> Fact:
        return self.of(node.value)

    def _of_Await(self, node: ast.Await) -> Fact:
        return UNKNOWN

    def _of_Starred(self, node: ast.Starred) -> Fact:
        return UNKNOWN

    def _of_Subscript(self, node: ast.Subscript) -> Fact:
        owner = self.of(node.value)
        if owner.is_tensor:
            return owner
        if owner.is_gpu_tensor and owner.element is None:
            return Fact(kind="Tensor", device=owner.device)
        if owner.items is not None and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            index = node.slice.value
            return owner.items[index] if -len(owner.items) <= index < len(owner.items) else UNKNOWN
        if isinstance(node.slice, ast.Slice):
            return owner if owner.kind == "list" else UNKNOWN
        return owner.element or UNKNOWN

    def _combined(self, facts: list[Fact]) -> Fact:
        """What an operator makes of its operands: a tensor if one is, on the GPU if one is."""
        tensors = [fact for fact in facts if fact.is_tensor or fact.is_gpu_tensor]
        if not tensors:
            return Fact(kind="number") if all(fact.kind in NUMBERS for fact in facts) else UNKNOWN
        device = next((fact.device for fact in tensors if fact.on_gpu), None)
        if device is None and all(fact.on_cpu for fact in tensors) and all(fact.kind for fact in facts):
            device = "cpu"
        return Fact(kind="Tensor", device=device, has_graph=any(fact.has_graph for fact in tensors))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call) -> Fact:
        qualified = self.module.qualified(node.func)
        if qualified is not None:
            found = call_fact(self, node, qualified)
            if found is not None:
                return found
        elif isinstance(node.func, ast.Name) and self.module.scopes.lookup(node.func.id, node) is None:
            found = builtin_fact(self, node, node.func.id)
            if found is not None:
                return found
        target = self.module.functions.definition(node.func)
        if isinstance(target, ast.ClassDef):
            if self.module.classes.is_layer(target):
                return Fact(kind="Module", device="cpu", class_name=target.name)
            return Fact(kind="Dataset", class_name=target.name) if self.module.classes.is_dataset(target) else UNKNOWN
        if isinstance(target, FUNCTIONS):
            return self._returned(target)
        if isinstance(node.func, ast.Attribute):
            found = method_fact(self, node, node.func, self.of(node.func.value))
            if found is not None:
                return found
        return self._applied(node)

    def _returned(self, function: Function) -> Fact:
        returns = self.module.functions.returns(function)
        if not returns or function.decorator_list:
            return UNKNOWN
        return join([self.of(value) for value in returns])

    def _applied(self, node: ast.Call) -> Fact:
        """A layer applied to its input: a tensor, where the layer or the input is."""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "forward":
            func = func.value  # the same, without hooks
        called = self.of(func)
        if called.kind != "Module" or called.class_name in SEVERAL_OUTPUTS:
            return UNKNOWN
        if self.module.classes.is_local_layer(called.class_name) and not self.module.classes.layer_gives_tensor(
            called.class_name
        ):
            return UNKNOWN
        device = next((fact.device for value in node.args if (fact := self.of(value)).on_gpu), None)
        if device is None and called.on_gpu:
            device = called.device
        return Fact(kind="Tensor", device=device, has_graph=not self.module.grad_is_off(node))

    def device(self, node: ast.expr) -> str | None:
        """Which device type the expression names; None where it cannot be told."""
        return device_of(self, node)


DEVICE_WORDS = frozenset({"cpu", "cuda", "mps", "xpu", "hpu", "npu", "meta"})
# Layers that return more than a tensor.
SEVERAL_OUTPUTS = frozenset(
    f"torch.nn.{name}"
    for name in ("LSTM", "GRU", "RNN", "LSTMCell", "MultiheadAttention", "AdaptiveLogSoftmaxWithLoss")
)
