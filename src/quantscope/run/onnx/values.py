"""Cut out the part of a graph that computes chosen values, and nothing else."""

from collections.abc import Sequence

import onnx

from quantscope.run.onnx.seeing import add_outputs


def only_up_to(proto: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Copy a model to compute these values and no more: onnxruntime runs every node it has."""
    copy = add_outputs(proto, names)
    graph = copy.graph
    needed = set(names)
    outputs = [value for value in graph.output if value.name in needed]
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= _reads(node)
            nodes.append(node)
    stored = {tensor.name for tensor in graph.initializer}
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    # Old files list their constants among the inputs too.
    inputs = [value for value in graph.input if value.name in needed or value.name not in stored]
    for field, kept in (
        (graph.node, nodes[::-1]),
        (graph.initializer, constants),
        (graph.input, inputs),
        (graph.output, outputs),
    ):
        del field[:]
        field.extend(kept)
    return copy


def _reads(node: onnx.NodeProto) -> set[str]:
    """Name a node's inputs, and what the graphs inside it take from around them."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for each in inner.node:
                names |= _reads(each)
            names |= {output.name for output in inner.output}
    return names
