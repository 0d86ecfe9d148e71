"""This module names layers of PyTorch programs by their module paths, as a person wrote them."""

from collections.abc import Sequence
from typing import NamedTuple

from quantscope.model.naming import make_unique
from quantscope.model.torch.pt2_graph import ProgramNode

_WITH_WEIGHTS = ("weight", "mat2")
# The bundled network's only module that its ONNX form calls otherwise.
_OUR_RESNET8 = "quantscope.zoo.torch_resnet8.ResNet8"
_OUR_NAMES = {"stem_relu": "stem.relu"}


class ModuleOp(NamedTuple):
    """An operator and the module that calls it; `path` is "" for the model itself."""

    path: str
    operator: str
    has_weights: bool


def module_layer_names(operators: Sequence[ModuleOp]) -> list[str]:
    """Name `stack1.conv1` the operator that a module is, `stack1.add` one inside a module.

    A module that holds no other is its one operator with weights, or its only operator; others
    beside it are named after what they do: `stack2.conv1.pad`.
    """
    inner: dict[str, list[int]] = {}
    for index, operator in enumerate(operators):
        inner.setdefault(operator.path, []).append(index)
    parents = {path[:end] for path in inner for end in range(len(path)) if path[end] == "."}
    names = []
    for index, (path, name, _) in enumerate(operators):
        is_leaf = bool(path) and path not in parents
        is_module = is_leaf and index == _main(operators, inner[path])
        names.append(path if is_module else ".".join(filter(None, (path, name))))
    return make_unique(names)


def program_layer_names(nodes: Sequence[ProgramNode]) -> list[str]:
    """Name the operators of a program by the modules that they were exported from."""
    operators = []
    for node in nodes:
        path = node.modules[-1][0] if node.modules else ""
        has_weights = not set(_WITH_WEIGHTS).isdisjoint(node.arguments)
        operators.append(ModuleOp(path, node.op.split(".")[1].strip("_"), has_weights))
    names = module_layer_names(operators)
    is_ours = any(kind == _OUR_RESNET8 for node in nodes for _, kind in node.modules)
    return make_unique(_OUR_NAMES.get(name, name) for name in names) if is_ours else names


def _main(operators: Sequence[ModuleOp], members: Sequence[int]) -> int | None:
    """Find the one operator that a module is; None if several could be."""
    candidates = [i for i in members if operators[i].has_weights] or members
    return candidates[0] if len(candidates) == 1 else None
