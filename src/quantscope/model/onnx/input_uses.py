"""This module follows the inputs of an ONNX graph to what says which values they may hold."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from quantscope.model.input_uses import InputUse
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names

# Operators that hand the values of their first input on, in another shape or type.
_HANDS_ON = frozenset(
    (
        *("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand"),
        *("Tile", "Concat", "Slice", "Split", "Gather", "Clip", "DequantizeLinear"),
    )
)
_COMPARES = frozenset({"Equal"})
# Which inputs of EmbedLayerNormalization are ids, and which table each is looked up in.
_EMBEDDINGS = {0: 2, 1: 4, 8: 3}


def input_uses(graph: OnnxGraph) -> dict[str, InputUse]:
    """Say of each input of the file what its graph does with it."""
    readers: dict[str, list[ir.Node]] = {}
    for node in _all_nodes(graph.nodes):
        for name in input_names(node):
            if name:
                readers.setdefault(name, []).append(node)
    return {port.name: _use(graph, readers, port.name) for port in graph.file.inputs}


def _all_nodes(nodes: Any) -> Iterator[ir.Node]:
    """Give the nodes with those of inner graphs, which read outer values by their names."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _all_nodes(attribute.as_graph())


def _use(graph: OnnxGraph, readers: Mapping[str, list[ir.Node]], port: str) -> InputUse:
    limits: list[int] = []
    compared: list[float] = []
    ends: tuple[float, float] | None = None
    # A value, and what was added to the input's on the way to it.
    waiting, seen = [(port, 0)], {port}
    while waiting:
        name, added = waiting.pop()
        for node in readers.get(name, ()):
            places = [place for place, read in enumerate(input_names(node)) if read == name]
            limits += [limit - added for place in places if (limit := _limit(graph, node, place))]
            if node.op_type in _COMPARES:
                compared += _constants(graph, node, name)
            if node.op_type == "QuantizeLinear" and places == [0] and ends is None:
                ends = _ends(graph, node)
            more = _added(graph, node, name)
            if more is not None or (node.op_type in _HANDS_ON and 0 in places):
                for made in output_names(node):
                    if made and made not in seen:
                        seen.add(made)
                        waiting.append((made, added + (more or 0)))
    lowest, highest = ends or (None, None)
    return InputUse(
        ids_below=max(min(limits), 1) if limits else None,
        compared_with=tuple(dict.fromkeys(compared)),
        lowest=lowest,
        highest=highest,
    )


def _limit(graph: OnnxGraph, node: ir.Node, place: int) -> int | None:
    """Give the rows of the table that a node looks this input up in; None where it does not."""
    names = input_names(node)
    if node.op_type == "Gather" and place == 1:
        return _rows(graph, names[0], _axis(node))
    if node.op_type == "EmbedLayerNormalization" and place in _EMBEDDINGS:
        table = _EMBEDDINGS[place]
        return _rows(graph, names[table], 0) if len(names) > table else None
    if node.op_type == "OneHot" and place == 0:
        depth = graph.array(names[1])
        return None if depth is None or depth.size != 1 else int(depth.ravel()[0])
    if node.op_type == "GatherBlockQuantized" and place == 1:
        return _rows(graph, names[0], 0)
    return None


def _axis(node: ir.Node) -> int:
    attribute = node.attributes.get("axis")
    return 0 if attribute is None else attribute.as_int()


def _rows(graph: OnnxGraph, table: str | None, axis: int) -> int | None:
    """Give the length of a stored table, seen through the operator that dequantizes it."""
    maker = graph.makers.get(table or "")
    if maker is not None and maker.op_type in ("DequantizeLinear", "Identity", "Cast"):
        table = input_names(maker)[0]
    tensor = graph.tensor(table)
    if tensor is None:
        return None
    shape = tensor.shape.numpy() if isinstance(tensor.shape, ir.Shape) else tensor.shape
    rows = shape[axis] if -len(shape) <= axis < len(shape) else None
    return rows if isinstance(rows, int) else None


def _constants(graph: OnnxGraph, node: ir.Node, name: str) -> list[float]:
    """Give the single numbers among what a node compares a value with."""
    found = [graph.array(other) for other in input_names(node) if other != name]
    return [float(array.ravel()[0]) for array in found if array is not None and array.size == 1]


def _added(graph: OnnxGraph, node: ir.Node, name: str) -> int | None:
    """Give the single whole number that a node adds to a value, else None."""
    if node.op_type != "Add":
        return None
    numbers = _constants(graph, node, name)
    return int(numbers[0]) if numbers and numbers[0] == int(numbers[0]) else None


def _ends(graph: OnnxGraph, node: ir.Node) -> tuple[float, float] | None:
    """Give the range of a quantizer with one scale; None where it is not stored."""
    names = [*input_names(node), ""]
    scale, zero = graph.array(names[1]), graph.array(names[2])
    if scale is None or scale.size != 1 or (names[2] and zero is None):
        return None
    kind = "uint8" if zero is None else zero.dtype.name
    try:
        info = np.iinfo(kind)
    except ValueError:  # a float8's, or of 4 bits
        return None
    step, middle = float(scale.ravel()[0]), 0 if zero is None else int(zero.ravel()[0])
    lowest, highest = step * (int(info.min) - middle), step * (int(info.max) - middle)
    return (lowest, highest) if np.isfinite([lowest, highest]).all() else None
