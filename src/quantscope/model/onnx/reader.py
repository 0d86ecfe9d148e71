"""This module reads an ONNX file, float, QDQ or QOperator, as a `Network`."""

from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir

from quantscope.model.assemble import Assembled, Parts, Step, ValueType, assemble
from quantscope.model.naming import layer_names
from quantscope.model.network import Network
from quantscope.model.onnx.defaults import default_names
from quantscope.model.onnx.file import OnnxFile, load_onnx
from quantscope.model.onnx.graph import OnnxGraph, open_graph, output_names
from quantscope.model.onnx.layer_parts import (
    attributes_of,
    float_op_type,
    node_title,
    read_value,
    readings,
    subgraph_names,
    written_names,
)
from quantscope.model.onnx.owners import Owners
from quantscope.model.onnx.qdq import find_quantized_values
from quantscope.model.onnx.quant_params import QuantizedValues
from quantscope.model.onnx.signs import relu_drafts


def read_onnx(source: OnnxGraph | OnnxFile | Path | str) -> Network:
    """Read a model file; weights stay on disk until a tensor's `integers` are asked for."""
    if not isinstance(source, OnnxFile | OnnxGraph):
        source = load_onnx(source)
    graph = source if isinstance(source, OnnxGraph) else open_graph(source)
    file = graph.file
    values = find_quantized_values(graph)
    assembled = assemble(_parts(graph, values))
    return Network(
        path=file.path,
        digest=file.digest,
        format=file.format,
        opset=file.opset,
        producer=file.producer,
        inputs=assembled.inputs,
        outputs=assembled.outputs,
        layers=assembled.layers,
        tensors=assembled.tensors,
        batch=graph.batch,
        notes=tuple(_notes(graph, values, assembled)),
        metadata=file.metadata,
    )


def _parts(graph: OnnxGraph, values: QuantizedValues) -> Parts:
    steps = tuple(_steps(graph, values))
    inputs = tuple(port.name for port in graph.file.inputs)
    written = {*inputs, *(name for step in steps for name in step.outputs if name)}
    return Parts(
        steps=steps,
        drafts=tuple(values.drafts),
        types={name: _type(graph, name) for name in written},
        inputs=inputs,
        outputs=tuple(read_value(graph, values, port.name) for port in graph.file.outputs),
        written={name: values.written(name) for name in written},
        folding_relu=relu_drafts(graph, values),
        origins=values.origins,
        counts_constant_outputs=True,
    )


def _steps(graph: OnnxGraph, values: QuantizedValues) -> Iterator[Step]:
    """Make a step of every node but quantizers and what computes from constants alone."""
    parts = values.absorbed | values.merged
    nodes = [node for node in graph.nodes if node not in parts and not _is_constant(graph, node)]
    owners = Owners(graph)
    names = layer_names([node_title(graph.file, node, owners.of(node)) for node in nodes])
    for node, name in zip(nodes, names, strict=True):
        attributes, op_type = attributes_of(node), float_op_type(node)
        yield Step(
            name=name,
            node_name=node.name or "",
            op_type=op_type,
            file_op_type=node.op_type,
            domain=node.domain,
            reads=readings(graph, values, node),
            outputs=written_names(values, node),
            attributes=attributes,
            default_attributes=default_names(node, op_type, attributes, opset=graph.file.opset),
            subgraphs=subgraph_names(node),
        )


def _type(graph: OnnxGraph, name: str) -> ValueType:
    kind, sized = graph.type(name), graph.sized.get(name)
    return ValueType(kind.dtype, kind.shape, sized.shape if sized else None)


def _is_constant(graph: OnnxGraph, node: ir.Node) -> bool:
    names = [name for name in output_names(node) if name]
    return bool(names) and all(graph.is_constant(name) for name in names)


def _notes(graph: OnnxGraph, values: QuantizedValues, assembled: Assembled) -> Iterator[str]:
    if graph.batch is not None:
        yield "The batch is dynamic; MACs and bytes are for a batch of 1"
    for layer in assembled.layers:
        if layer.subgraphs:
            names = ", ".join(layer.subgraphs)
            yield f"{layer.name} ({layer.op_type}) holds subgraphs that are not entered: {names}"
    if graph.file.hollow.functions:
        names = ", ".join(function.name for function in graph.file.hollow.functions)
        yield f"The model's own functions are shown as one layer each: {names}"
    yield from dict.fromkeys(values.notes)
