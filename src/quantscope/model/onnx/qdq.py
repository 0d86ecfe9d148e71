"""This module reads QuantizeLinear and DequantizeLinear, which state a QDQ model's scales."""

import re

import numpy as np
import onnx_ir as ir

from quantscope.arithmetic import limits, quantize
from quantscope.errors import BadConfigError
from quantscope.model.assemble import Draft
from quantscope.model.network import Array
from quantscope.model.onnx.graph import (
    MICROSOFT,
    STANDARD,
    OnnxGraph,
    attribute_int,
    input_names,
    output_names,
)
from quantscope.model.onnx.nbits import add_nbits
from quantscope.model.onnx.operators import QDQ_OPS
from quantscope.model.onnx.qoperator import add_qoperator, layout_of
from quantscope.model.onnx.quant_params import (
    NotShownError,
    QuantizedValues,
    describe,
    padded_inputs,
    read_params,
    register,
)
from quantscope.model.onnx.tensors import element_type

ENDS_KEY = "quantscope.ends"
"""Where the node that reads stored integers states the smallest and largest that are in use."""


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
    stated = _stated_ends(node)
    if stated is not None and draft.read_integers is not None:
        _take_ends(draft, stated, draft.read_integers())
    draft.dequantized_names.append(output_names(node)[0])
    found.by_dequantized[output_names(node)[0]] = draft


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
        elif node.op_type == "Clip" and _narrow(graph, found, node):
            found.absorbed.add(node)
        elif node.op_type in MOVES_INTEGERS:
            _carry_over(graph, found, node)
    return found


def _narrow(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> bool:
    """Take a Clip right behind a quantizer for the ends of its integers; say whether it is that."""
    source, lowest, highest = padded_inputs(node, 3)[:3]
    draft, output = found.by_integer.get(source), output_names(node)[0]
    if draft is None or draft.follows is not None or draft.float_name is None:
        return False
    if not draft.params.is_integer or draft.params.ends is not None:
        return False
    readers = [other for other in graph.nodes if source in input_names(other)]
    if len(readers) > 1 or draft.integer_names != [source]:
        return False
    given = [graph.array(name) if name else None for name in (lowest, highest)]
    if any(name and end is None for name, end in zip((lowest, highest), given, strict=True)):
        return False
    ends = limits(draft.params.dtype)
    low, high = (
        usual if end is None else int(end.reshape(()))
        for usual, end in zip(ends, given, strict=True)
    )
    if not _take_ends(draft, (low, high)):
        return False
    draft.integer_names.append(output)
    found.by_integer[output] = draft
    found.origins[output] = found.origins.get(source, source)
    return True


def _take_ends(draft: Draft, ends: tuple[int, int], integers: Array | None = None) -> bool:
    """Give a draft its ends; say no where stored integers or the zero-point lie outside of them."""
    if integers is not None:
        wide = integers.astype(np.int32)
        if wide.size and (wide.min() < ends[0] or wide.max() > ends[1]):
            return False
    try:
        draft.params = draft.params.changed(ends=ends)
    except BadConfigError:
        return False
    return True


def _stated_ends(node: ir.Node) -> tuple[int, int] | None:
    """Read the ends that an edit stated of stored integers; None for anything else."""
    low, comma, high = node.metadata_props.get(ENDS_KEY, "").partition(",")
    whole = re.compile(r"-?\d{1,6}")
    if not (comma and whole.fullmatch(low) and whole.fullmatch(high)):
        return None
    return int(low), int(high)


def _carry_over(graph: OnnxGraph, found: QuantizedValues, node: ir.Node) -> None:
    """Let what is moved keep the parameters of its source; scales by channel may not fit it."""
    source = found.by_integer.get(padded_inputs(node, 1)[0])
    if source is None or source.params.scale.ndim:
        return
    for name in filter(None, output_names(node)):
        shape = graph.type(name).shape
        names = source.scale_name, source.zero_point_name
        register(found, Draft(source.params, [name], *names, shape, follows=source))
