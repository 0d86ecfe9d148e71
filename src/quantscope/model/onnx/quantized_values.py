"""This module gathers every place that states a scale into one draft per quantized tensor."""

import onnx_ir as ir

from quantscope.model.assemble import Draft
from quantscope.model.onnx.drafts import QuantizedValues, padded_inputs, register
from quantscope.model.onnx.graph import MICROSOFT, STANDARD, OnnxGraph, output_names
from quantscope.model.onnx.nbits import add_nbits
from quantscope.model.onnx.operators import QDQ_OPS
from quantscope.model.onnx.qdq import add_quantizer
from quantscope.model.onnx.qoperator import add_qoperator, layout_of

# Operators that move integers about without computing with them.
MOVES_INTEGERS = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)


def find_quantized_values(graph: OnnxGraph) -> QuantizedValues:
    """Find all quantized tensors of a graph; the notes tell of those that cannot be shown."""
    found = QuantizedValues()
    for node in graph.nodes:
        if node.domain not in STANDARD or not node.outputs:
            continue
        layout = layout_of(node)
        if node.op_type in QDQ_OPS and len(node.inputs) >= 2:
            add_quantizer(graph, found, node)
        elif layout is not None:
            add_qoperator(graph, found, node, layout)
        elif node.op_type == "MatMulNBits" and node.domain == MICROSOFT:
            add_nbits(graph, found, node)
        elif node.op_type in MOVES_INTEGERS:
            _carry_over(graph, found, node)
    return found


def _carry_over(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Let what is moved keep the parameters of its source; scales by channel may not fit it."""
    source = found.by_integer.get(padded_inputs(node, 1)[0])
    if source is None or source.params.scale.ndim:
        return
    for name in filter(None, output_names(node)):
        shape = graph.type(name).shape
        names = source.scale_name, source.zero_point_name
        register(found, Draft(source.params, [name], *names, shape, follows=source))
