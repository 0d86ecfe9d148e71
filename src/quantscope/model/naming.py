"""This module names layers in a person's words, alike in a float model and its quantized forms."""

import ast
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quantscope.model.network import NetworkFormat
from quantscope.model.syntax import parse_expression

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The key under which torch's exporter writes the module path of a node into its metadata."""
CLASS_HIERARCHY = "pkg.torch.onnx.class_hierarchy"
"""The key under which it writes the classes of the modules on that path."""

# What onnxruntime's quantizers add to a node's name.
_QOPERATOR_SUFFIX = re.compile(r"(_quant|_Q[248])$")
_QDQ_SUFFIX = re.compile(r"_matmul_Q[248]$")


class NodeTitle(NamedTuple):
    """The facts about a node that it is named by; `op_type` is the float operator's."""

    name: str
    op_type: str
    format: NetworkFormat
    name_scopes: str = ""
    class_hierarchy: str = ""


def layer_names(nodes: Sequence[NodeTitle]) -> list[str]:
    """Give each node a name of its own.

    It is the PyTorch module path where the exporter left it, else the node's name without what
    exporters and quantizers add, else the operator's kind with a number that counts only its own
    kind: a quantizer that removes ReLUs leaves the numbers of the convolutions alone.
    """
    counts: dict[str, int] = {}
    proposals = []
    for node in nodes:
        name = _module_path(node) or _plain(node)
        if not name:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
            name = f"{node.op_type.lower()}_{counts[node.op_type]}"
        proposals.append(name)
    return make_unique(proposals)


def make_unique(names: Iterable[str]) -> list[str]:
    """Make names differ: later ones of the same name get _2, _3 and so on."""
    given = list(names)
    # A number goes on where it was, so that ten thousand equal names need no search each.
    taken, last = set(given), dict.fromkeys(given, 1)
    seen: set[str] = set()
    unique = []
    for name in given:
        chosen = name
        if name in seen:
            while chosen in taken:
                last[name] += 1
                chosen = f"{name}_{last[name]}"
            taken.add(chosen)
        seen.add(name)
        unique.append(chosen)
    return unique


def _module_path(node: NodeTitle) -> str:
    """Give `stack1.conv1` for an operator that is a module, `stack1.add` for one inside a module.

    It is empty where the exporter left no path.
    """
    scopes, classes = _strings(node.name_scopes), _strings(node.class_hierarchy)
    if len(scopes) < 2:
        return ""
    module, operation = scopes[-2], scopes[-1]
    if len(classes) == len(scopes) and _is_leaf_module(classes[-2]):
        return module
    return f"{module}.{operation}" if module else operation


def _is_leaf_module(name: str) -> bool:
    return name.startswith("torch.nn.modules.") and ".container." not in name


def _strings(text: str) -> list[str]:
    """Read the Python list of texts that the exporter writes; anything else is ignored."""
    if not text or len(text) > 10_000:
        return []
    try:
        found = ast.literal_eval(parse_expression(text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(x, str) for x in found) else []


def _plain(node: NodeTitle) -> str:
    """Give the node's name without what exporters and quantizers add; it may be empty."""
    name = node.name
    if node.format in ("qoperator", "mixed", "dynamic", "blocks"):
        name = _QOPERATOR_SUFFIX.sub("", name)
    if node.format in ("qdq", "mixed", "dynamic", "blocks"):
        name = _QDQ_SUFFIX.sub("", name)
    if name.startswith("node_"):  # torch.onnx's own nodes without a module
        return name.removeprefix("node_")
    if name.startswith("/"):  # TorchScript exports: /stack1/conv1/Conv
        parts = name.strip("/").split("/")
        if len(parts) > 1 and parts[-1].split("_")[0] == node.op_type:
            parts.pop()
        return ".".join(parts)
    return name
