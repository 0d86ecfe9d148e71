"""This module names layers in a person's words, alike in a float model and its quantized forms."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from quantscope.model.network import NetworkFormat
from quantscope.model.syntax import parse_expression

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The key under which torch's exporter writes the module path of a node into its metadata."""
CLASS_HIERARCHY = "pkg.torch.onnx.class_hierarchy"
"""The key under which it writes the classes of the modules on that path."""

# What onnxruntime's quantizers and optimizers add to a node's name.
_QOPERATOR_SUFFIX = re.compile(r"(_quant|_Q[248])$")
_QDQ_SUFFIX = re.compile(r"_matmul_Q[248]$")
_SUFFIXES: dict[NetworkFormat, tuple[re.Pattern[str], ...]] = {
    "qdq": (_QDQ_SUFFIX,),
    "qoperator": (_QOPERATOR_SUFFIX,),
    "mixed": (_QOPERATOR_SUFFIX, _QDQ_SUFFIX),
    "dynamic": (_QOPERATOR_SUFFIX, _QDQ_SUFFIX),
    "blocks": (_QOPERATOR_SUFFIX, _QDQ_SUFFIX),
}
_FUSED = re.compile(r"(?P<product>MatMul\w*)/MatMulAddFusion(_(?P<half>MatMul|Add))?$")
_SPLIT_GEMM = re.compile(r"\bGemm_(MatMul|Add)$")
# What TensorFlow's converters call the operators within a Keras layer.
_IN_KERAS_LAYER = re.compile(r"BiasAdd\w*|Conv2D\w*|MatMul\w*|FusedBatchNorm\w*|depthwise\w*")
_KERAS_PREFIX = re.compile(r"StatefulPartitionedCall\w*|model\w*|functional\w*|sequential\w*")
_PRODUCTS = ("Gemm", "MatMul")  # one may be made of the other
_NUMBER = re.compile(r"_\d+$")


class NodeTitle(NamedTuple):
    """The facts about a node that it is named by; `op_type` is the float operator's.

    `owner` is the module that a weight which only this node reads is named after, `bias_owner` that
    of a bias; "" where there is none. `has_weight` says that it multiplies by a constant.
    """

    name: str
    op_type: str
    format: NetworkFormat
    name_scopes: str = ""
    class_hierarchy: str = ""
    owner: str = ""
    bias_owner: str = ""
    has_weight: bool = False


class _Place(NamedTuple):
    """The place of a node: the module that it is in, and what it is called there.

    Without `part` the module is the node's whole name.
    """

    module: str
    part: str = ""
    is_owner: bool = False


def layer_names(nodes: Sequence[NodeTitle]) -> list[str]:
    """Give each node a name of its own.

    It is the module that owns the node's weights, or else the PyTorch module path where the
    exporter left it, else the node's name without what exporters and quantizers add, else the
    operator's kind with a number that counts only its own kind: a quantizer that removes ReLUs
    leaves the numbers of the convolutions alone. Of several nodes in one module the one that has
    its weights is called as the module is, the others with what they are called in it, unless all
    are of one kind.
    """
    places = [_place(node) for node in nodes]
    kinds: dict[str, set[str]] = {}
    for node, place in zip(nodes, places, strict=True):
        if place is not None and place.part:
            kinds.setdefault(place.module, set()).add(node.op_type)
    owners = Counter(place.module for place in places if place and place.is_owner)
    above = {module[:end] for module in kinds for end in _ends(module)}
    counts: dict[str, int] = {}
    proposals = []
    for node, place in zip(nodes, places, strict=True):
        if place is None:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
            proposals.append(f"{node.op_type.lower()}_{counts[node.op_type]}")
            continue
        module = place.module
        is_alone = len(kinds.get(module, ())) == 1 and module not in above
        is_module = is_alone or (place.is_owner and owners[module] == 1)
        proposals.append(module if module and (is_module or not place.part) else _full(place))
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


def _full(place: _Place) -> str:
    return ".".join(filter(None, (place.module, place.part)))


def _ends(module: str) -> Iterator[int]:
    """Give where the modules around a module end in its path."""
    return (place for place, letter in enumerate(module) if letter == ".")


def _place(node: NodeTitle) -> _Place | None:
    """Find where a node stands; None where nothing tells."""
    if node.owner:
        return _Place(node.owner, node.op_type, is_owner=True)
    scoped = _scoped_place(node)
    if scoped is not None:
        return scoped
    name = _without_suffixes(node)
    if "/" not in name and node.bias_owner:
        return _Place(node.bias_owner, node.op_type, is_owner=node.has_weight)
    return _named_place(name, node)


def _scoped_place(node: NodeTitle) -> _Place | None:
    """Give `stack1.conv1` for an operator that is a module, `stack1.add` for one inside a module.

    It is None where the exporter left no path.
    """
    scopes, classes = _strings(node.name_scopes), _strings(node.class_hierarchy)
    if len(scopes) < 2:
        return None
    module, operation = scopes[-2], scopes[-1]
    if len(classes) == len(scopes) and _is_leaf_module(classes[-2]):
        return _Place(module, node.op_type, is_owner=node.has_weight)
    return _Place(f"{module}.{operation}" if module else operation)


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


def _without_suffixes(node: NodeTitle) -> str:
    """Give the node's name without what quantizers and optimizers add; it may be empty."""
    name = node.name
    for suffix in _SUFFIXES.get(node.format, ()):
        name = suffix.sub("", name)
    name = _FUSED.sub(lambda found: found["half"] or found["product"], name)
    return _SPLIT_GEMM.sub(r"\1", name)


def _named_place(name: str, node: NodeTitle) -> _Place | None:
    """Read the place off a node's name, as exporters write it."""
    if name.startswith("node_"):  # torch.onnx's own nodes without a module
        return _Place(name.removeprefix("node_"))
    if name.startswith("/"):  # TorchScript exports: /stack1/conv1/Conv
        *modules, last = name.strip("/").split("/")
        module = ".".join(_without_repeats(modules))
        kinds = _PRODUCTS if node.op_type in _PRODUCTS else (node.op_type,)
        if _NUMBER.sub("", last) not in kinds:
            return _Place(".".join(filter(None, (module, last))))
        return _Place(module, last, is_owner=node.has_weight) if module else _Place(last)
    if "/" in name:  # TensorFlow's: StatefulPartitionedCall/model/conv2d/BiasAdd
        parts = [part for part in name.split("/") if part]
        while len(parts) > 1 and _KERAS_PREFIX.fullmatch(parts[0]):
            parts.pop(0)
        if len(parts) > 1 and _IN_KERAS_LAYER.fullmatch(parts[-1]):
            return _Place(".".join(parts[:-1]), parts[-1], is_owner=node.has_weight)
        return _Place(".".join(parts)) if parts else None
    return _Place(name) if name else None


def _without_repeats(modules: Sequence[str]) -> Iterator[str]:
    """Take `layer1` off `layer1/layer1.0`, as modules in a container are written."""
    for module, inside in zip_longest(modules, modules[1:], fillvalue=""):
        if not inside.startswith(f"{module}."):
            yield module
