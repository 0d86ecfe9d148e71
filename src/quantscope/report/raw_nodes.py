"""List every node as the file has it, with the scales and zero-points that it reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from quantscope.model import Array, AttributeValue, ModelSource, Port, open_model
from quantscope.model.onnx import (
    QDQ_OPS,
    OnnxFile,
    OnnxGraph,
    attributes_of,
    input_names,
    layout_of,
    output_names,
    subgraph_names,
)
from quantscope.plain_text import printable
from quantscope.report.wording import attribute_text, shape_text


class RawParams(NamedTuple):
    """The scale and zero-point of one value that a node reads or writes.

    The arrays are None where they are computed when the model runs, left out or not numbers.
    """

    value: str
    scale_name: str
    scale: Array | None
    zero_point_name: str
    zero_point: Array | None


@dataclass(frozen=True)
class RawNode:
    """One node of an ONNX file; an input or output that is left out has an empty name."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]
    subgraphs: tuple[str, ...]
    params: tuple[RawParams, ...] = field(repr=False)


@dataclass(frozen=True)
class RawGraph:
    """The nodes of an ONNX file in its own order, and what is known of their values.

    `types` has text such as `int8 16×3×3×3` for each value whose type is known; `constants` are the
    values that are stored.
    """

    file: OnnxFile
    nodes: tuple[RawNode, ...]
    types: Mapping[str, str]
    constants: frozenset[str]

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of nodes of each type, the most frequent first."""
        return dict(sorted(self.file.op_counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self.file.inputs


def read_raw_nodes(source: ModelSource) -> RawGraph:
    """Read the nodes of an ONNX file in the file's own order."""
    model = open_model(source).as_onnx("a list of nodes")
    file, graph = model.file, model.graph
    # The graph's own order is topological; nodes are known again by their outputs, names may be
    # absent.
    order = {tuple(node.output): index for index, node in enumerate(file.hollow.graph.node)}
    nodes = sorted(graph.nodes, key=lambda node: order.get(output_names(node), len(order)))
    values = {name for node in nodes for name in (*input_names(node), *output_names(node))}
    return RawGraph(
        file=file,
        nodes=tuple(
            RawNode(
                name=node.name or "",
                op_type=node.op_type,
                domain=node.domain,
                inputs=input_names(node),
                outputs=output_names(node),
                attributes=MappingProxyType(attributes_of(node)),
                subgraphs=subgraph_names(node),
                params=tuple(_params(graph, node)),
            )
            for node in nodes
        ),
        types=MappingProxyType(
            {
                name: f"{kind.dtype} {shape_text(kind.shape)}"
                for name, kind in graph.types.items()
                if name in values
            }
        ),
        constants=frozenset(name for name in values if graph.tensor(name) is not None),
    )


def raw_lines(graph: RawGraph) -> Iterator[str]:
    """List the nodes, a few lines each, then how many there are of each type."""
    for index, node in enumerate(graph.nodes):
        domain = f"{node.domain}::" if node.domain else ""
        yield printable(f"{index:>4}  {domain}{node.op_type}  {node.name or '(no name)'}")
        for label, names in (("in", node.inputs), ("out", node.outputs)):
            for place, name in enumerate(names):
                kind = graph.types.get(name, "")
                stored = "  stored" if name in graph.constants else ""
                shown = printable(name) if name else "(left out)"
                yield f"      {label if not place else '':<5}{shown}  {kind}{stored}".rstrip()
        for params in node.params:
            yield f"      {printable(params.value)}: {params_text(params)}"
        for name, value in node.attributes.items():
            yield f"      {printable(name)} = {attribute_text(value)}"
        for name in node.subgraphs:
            yield f"      {printable(name)} is a subgraph, not entered"
    parts = ", ".join(f"{number:,} {printable(kind)}" for kind, number in graph.counts.items())
    yield f"{len(graph.nodes):,} nodes: {parts}"


def params_text(params: RawParams) -> str:
    """Write the parameters: `scale 0.02352, zero-point -128`."""
    zero_point = "left out" if not params.zero_point_name else _values_text(params.zero_point)
    return f"scale {_values_text(params.scale)}, zero-point {zero_point}"


def _values_text(array: Array | None) -> str:
    """Give one number, or the least and the largest with their places, of how many."""
    if array is None:
        return "not stored"
    values = array.astype(np.float64).ravel()
    if values.size == 0:
        return "empty"
    low, high = values.min(), values.max()
    if low == high or values.size == 1:
        return f"{low:.6g}"
    return f"{low:.6g} @{values.argmin()} … {high:.6g} @{values.argmax()} of {values.size:,}"


def _params(graph: OnnxGraph, node: ir.Node) -> Iterator[RawParams]:
    """Give the parameters that a node reads, with the value that each is for."""
    # Inputs that a node leaves out at its end read as empty names.
    names = (*input_names(node), *[""] * 9)
    layout = layout_of(node)
    if node.op_type in QDQ_OPS:
        places = [(names[0], 1, 2)]
    elif layout is not None:
        places = [(names[slot.value], slot.scale, slot.zero_point) for slot in layout.scaled]
        if layout.output and node.outputs:
            places.append((output_names(node)[0], *layout.output))
    else:
        return
    for value, scale, zero_point in places:
        if names[scale]:
            yield RawParams(
                value,
                names[scale],
                _array(graph, names[scale]),
                names[zero_point],
                _array(graph, names[zero_point]),
            )


def _array(graph: OnnxGraph, name: str) -> Array | None:
    """Read a stored array of numbers; None if it is computed, left out or text."""
    array = graph.array(name) if name else None
    return None if array is None or array.dtype.kind in "OSU" else array
