"""This module checks a graph: every name known and made once, no circle, every operator valid."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import onnx

from quantscope.errors import BadModelError
from quantscope.model.onnx.operators import QDQ_OPS, QOPERATOR_OPS
from quantscope.model.onnx.tensors import is_external, subgraphs

_TEXT, _EMPTY = "holds text", "is empty"
_NOTHING_WRONG: Mapping[str, str] = MappingProxyType({})
_NUMERIC = QDQ_OPS | QOPERATOR_OPS | {"Conv", "ConvTranspose", "Gemm", "MatMul"}

_AXIS = re.compile("Unrecognized attribute: axis for operator (Deq|Q)uantizeLinear")
_PER_CHANNEL = "; scales by channel need opset 13: convert or export it for that"


def check_model(path: Path, proto: onnx.ModelProto) -> None:
    """Raise one line of `BadModelError` for the first thing that is wrong with the graph."""
    if not proto.opset_import:
        raise BadModelError(f"{path} is not a whole ONNX model: it names no opset")
    newest = onnx.defs.onnx_opset_version()
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= newest:
            raise BadModelError(
                f"{path} is written for opset {entry.version}; the installed onnx "
                f"{onnx.__version__} knows 1 to {newest}"
            )
    if not proto.graph.node:
        raise BadModelError(f"{path} holds no operators")
    if not proto.graph.output:
        raise BadModelError(f"{path} has no outputs")
    _check_names(path, proto.graph, frozenset())
    _check_numbers(path, proto.graph, max(entry.version for entry in proto.opset_import))
    skeleton = weightless(proto)
    for value in (*skeleton.graph.input, *skeleton.graph.output):
        if value.type.HasField("tensor_type"):
            # The checker wants a rank for each; onnxruntime and exporters do not.
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(skeleton)
    except Exception as error:  # the checker raises many kinds; each is a fault of the file
        hint = _PER_CHANNEL if _AXIS.search(str(error)) else ""
        raise BadModelError(f"{path} is not valid ONNX: {one_line(error)}{hint}") from None


def one_line(error: Exception) -> str:
    """Give an error's text on one line of at most 240 characters."""
    text = " ".join(str(error).split()).removesuffix(".")
    return text if len(text) <= 240 else text[:237] + "..."


def weightless(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copy the model in topological order, with external constants made graph inputs.

    onnx's checker and shape inference would look for their bytes otherwise.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    graph = copy.graph
    order = topological_order(graph)
    inputs = {value.name for value in graph.input}
    large = [tensor for tensor in graph.initializer if is_external(tensor)]
    small = [tensor for tensor in graph.initializer if not is_external(tensor)]
    nodes = []
    for node in (graph.node[index] for index in order):
        value = _external_value(node)
        if value is None:
            nodes.append(node)
        else:
            named = onnx.TensorProto(
                name=node.output[0], dims=value.dims, data_type=value.data_type
            )
            large.append(named)
    for tensor in large:
        if tensor.name not in inputs:
            shape = list(tensor.dims)
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, shape)
            )
    kept_nodes, kept_tensors = [*nodes], [*small]
    graph.ClearField("node")
    graph.node.extend(kept_nodes)
    graph.ClearField("initializer")
    graph.initializer.extend(kept_tensors)
    return copy


def _external_value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Give the tensor of a Constant node if its bytes are elsewhere."""
    if node.op_type != "Constant" or len(node.output) != 1:
        return None
    for attribute in node.attribute:
        value: onnx.TensorProto = attribute.t
        if attribute.name == "value" and is_external(value):
            return value
    return None


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put the nodes into an order in which they can run; runtimes do it, the format demands it."""
    order = topological_order(graph)
    if order != list(range(len(graph.node))):
        nodes = [graph.node[index] for index in order]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        graph.ClearField("node")
        graph.node.extend(copies)


def topological_order(graph: onnx.GraphProto) -> list[int]:
    """List the nodes' indices, each after those that it reads from; as the file where it can.

    Nodes of a circle are left out.
    """
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waits_for = [{maker[name] for name in _reads(node) if name in maker} for node in graph.node]
    readers: list[list[int]] = [[] for _ in graph.node]
    for index, makers in enumerate(waits_for):
        for source in makers:
            readers[source].append(index)
    missing = [len(makers) for makers in waits_for]
    order: list[int] = []
    ready = [index for index, count in enumerate(missing) if count == 0]
    if all(source < index for index, makers in enumerate(waits_for) for source in makers):
        return list(range(len(graph.node)))
    position = 0
    while position < len(ready):
        index = ready[position]
        position += 1
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                ready.append(reader)
    return order


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """List the names that a node reads, those that its subgraphs take from outside too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in subgraphs(attribute):
            yield from _captured(graph)


def _captured(graph: onnx.GraphProto) -> set[str]:
    made = {value.name for value in graph.input} | {t.name for t in graph.initializer}
    made |= {name for node in graph.node for name in node.output}
    used = {name for node in graph.node for name in _reads(node)}
    used |= {value.name for value in graph.output}
    return used - made


def _check_names(path: Path, graph: onnx.GraphProto, outer: frozenset[str]) -> None:
    """Raise if a name is made twice or by nothing; subgraphs also see the names of `outer`."""
    given = {value.name for value in graph.input}
    given |= {tensor.name for tensor in graph.initializer}
    given |= {sparse.values.name for sparse in graph.sparse_initializer}
    made: set[str] = set()
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in made or name in given:
                raise BadModelError(
                    f"{path} makes the tensor {name!r} more than once, "
                    f"the second time in node {_title(node, index)}"
                )
            made.add(name)
    known = frozenset(outer | given | made)
    for index, node in enumerate(graph.node):
        for name in filter(None, node.input):
            if name not in known:
                raise BadModelError(
                    f"Node {_title(node, index)} of {path} reads {name!r}, which nothing makes"
                )
    for value in graph.output:
        if value.name not in known:
            raise BadModelError(f"The output {value.name!r} of {path} is made by nothing")
    _check_order(path, graph)
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in subgraphs(attribute):
            _check_names(path, inner, known)


def _check_numbers(
    path: Path, graph: onnx.GraphProto, opset: int, outer: Mapping[str, str] = _NOTHING_WRONG
) -> None:
    """Raise if what computes is given text or nothing; onnx's checker looks at no constants."""
    wrong = {**outer, **_constants_without_numbers(graph)}
    for index, node in enumerate(graph.node):
        for place, name in enumerate(node.input if wrong else ()):
            if name in wrong and _takes_numbers(node, place, opset, empty=wrong[name] == _EMPTY):
                title = _title(node, index)
                raise BadModelError(
                    f"Node {title} of {path} takes numbers, but {name!r} {wrong[name]}"
                )
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                _check_numbers(path, inner, opset, wrong)


def _constants_without_numbers(graph: onnx.GraphProto) -> dict[str, str]:
    wrong = {tensor.name: fault for tensor in graph.initializer if (fault := _no_numbers(tensor))}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            fault = _no_numbers(attribute.t) if attribute.name == "value" else None
            if attribute.name in ("value_string", "value_strings"):
                fault = _TEXT
            if fault:
                wrong.update(dict.fromkeys(node.output, fault))
    return wrong


def _no_numbers(tensor: onnx.TensorProto) -> str | None:
    if tensor.data_type == onnx.TensorProto.STRING:
        return _TEXT
    return _EMPTY if 0 in tensor.dims else None


def _takes_numbers(node: onnx.NodeProto, place: int, opset: int, *, empty: bool) -> bool:
    """Tell whether an operator's input cannot be text, or cannot be empty."""
    if empty:  # nothing can be quantized, but not with no scale
        return node.op_type in QOPERATOR_OPS or (node.op_type in QDQ_OPS and place > 0)
    if node.op_type in _NUMERIC:
        return True
    try:
        inputs = onnx.defs.get_schema(node.op_type, opset, node.domain).inputs
    except onnx.defs.SchemaError:
        return False
    return bool(inputs) and "tensor(string)" not in inputs[min(place, len(inputs) - 1)].types


def _check_order(path: Path, graph: onnx.GraphProto) -> None:
    rest = sorted(set(range(len(graph.node))) - set(topological_order(graph)))
    if rest:
        raise BadModelError(
            f"The graph of {path} runs in a circle through {_titles(graph.node, rest)}"
        )


def _title(node: onnx.NodeProto, index: int) -> str:
    return repr(node.name) if node.name else f"{index} ({node.op_type})"


def _titles(nodes: Sequence[onnx.NodeProto], indices: Sequence[int]) -> str:
    shown = ", ".join(_title(nodes[index], index) for index in indices[:3])
    return shown if len(indices) <= 3 else f"{shown} and {len(indices) - 3} more"
