"""This module reads QuantizeLinear and DequantizeLinear, which state a QDQ model's scales."""

import onnx_ir as ir

from quantscope.arithmetic import quantize
from quantscope.model.assemble import Draft
from quantscope.model.onnx.dynamic import add_dynamic
from quantscope.model.onnx.ends import take_clip, take_stated_ends
from quantscope.model.onnx.graph import (
    MICROSOFT,
    STANDARD,
    OnnxGraph,
    attribute_int,
    input_names,
    output_names,
)
from quantscope.model.onnx.nbits import add_block_table, add_nbits
from quantscope.model.onnx.operators import MOVES_INTEGERS, QDQ_OPS, UNKNOWN_OPS
from quantscope.model.onnx.qoperator import add_qoperator, layout_of
from quantscope.model.onnx.quant_params import (
    NotShownError,
    QuantizedValues,
    carry_over,
    describe,
    padded_inputs,
    read_params,
    register,
)
from quantscope.model.onnx.tensors import element_type


def add_quantizer(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Make a QuantizeLinear or DequantizeLinear part of a draft, or note why not."""
    try:
        if node.op_type == "QuantizeLinear":
            _add_quantize(graph, found, node)
        else:
            _add_dequantize(graph, found, node)
    except NotShownError as reason:
        found.notes.append(f"{output_names(node)[0]} is not shown as quantized: {reason}")
    else:
        found.absorbed.add(node)
        source, output = input_names(node)[0], output_names(node)[0]
        found.origins[output] = found.origins.get(source, source)


def _add_quantize(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    source, scale, zero_point = padded_inputs(node, 3)[:3]
    integer = output_names(node)[0]
    code = attribute_int(node, "output_dtype", 0) or ir.DataType.UINT8.value
    dtype = graph.type(zero_point).dtype if zero_point else element_type(code)
    shape = graph.type(source).shape
    axis, block_size = attribute_int(node, "axis", 1), attribute_int(node, "block_size", 0)
    params = read_params(
        graph,
        tensor=source,
        scale=scale,
        zero_point=zero_point,
        dtype=dtype,
        axis=axis,
        block_size=block_size,
        shape=shape,
    )
    # One tensor quantized several times in the same way (a pair for each reader) is one tensor.
    for draft in found.by_float.get(source, ()):
        same_names = (draft.scale_name, draft.zero_point_name) == (scale, zero_point or None)
        if same_names and draft.params == params:
            draft.integer_names.append(integer)
            found.by_integer[integer] = draft
            return
    draft = Draft(params, [integer], scale, zero_point or None, shape, float_name=source)
    constant = graph.tensor(source)
    if constant is not None:
        draft.read_integers = lambda: quantize(graph.read(constant), params)
    register(found, draft)


def _add_dequantize(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    integer, scale, zero_point = padded_inputs(node, 3)[:3]
    axis, block_size = attribute_int(node, "axis", 1), attribute_int(node, "block_size", 0)
    draft = describe(graph, found, integer, scale, zero_point, axis=axis, block_size=block_size)
    take_stated_ends(draft, node)
    draft.dequantized_names.append(output_names(node)[0])
    found.by_dequantized[output_names(node)[0]] = draft


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
        elif node.op_type == "Clip" and take_clip(graph, found, node):
            found.absorbed.add(node)
        elif node.op_type == "GatherBlockQuantized":
            add_block_table(graph, found, node)
        elif node.op_type in UNKNOWN_OPS:
            name = node.name or output_names(node)[0]
            found.notes.append(f"{name} is not shown as quantized: {UNKNOWN_OPS[node.op_type]}")
        elif node.op_type in MOVES_INTEGERS:
            carry_over(graph, found, node)
    add_dynamic(graph, found)
    return found
