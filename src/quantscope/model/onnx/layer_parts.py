"""This module describes a node as a layer: its kind, name, attributes, and what it reads."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import onnx_ir as ir

from quantscope.model.assemble import Draft, Reading
from quantscope.model.naming import CLASS_HIERARCHY, NAME_SCOPES, NodeTitle
from quantscope.model.network import AttributeValue, Shape
from quantscope.model.onnx.file import OnnxFile
from quantscope.model.onnx.graph import MICROSOFT, OnnxGraph, input_names, output_names
from quantscope.model.onnx.operators import FLOAT_OPERATORS, INTEGER_PRODUCTS
from quantscope.model.onnx.owners import Owner
from quantscope.model.onnx.qoperator import layout_of
from quantscope.model.onnx.quant_params import QuantizedValues

# On the way from a stored constant to its layer these only change how it is laid out.
_LAYOUT = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
_WEIGHT_THEN_BIAS = frozenset(
    {
        *("Conv", "ConvTranspose", "Gemm", "FusedConv", "FusedGemm"),
        *("GroupNormalization", "InstanceNormalization", "LayerNormalization"),
    }
)
_NUMBERS_ARE_SETTINGS = frozenset(
    {"Clip", "Dropout", "OneHot", "Pad", "QuantizeLinear", "Resize", "Slice", "Upsample"}
)
_OUTPUT = re.compile(r"(?P<name>/.+)_output_0")
_SETTING_TYPES = frozenset({"int64", "bool", "string", "unknown"})


def float_op_type(node: ir.Node) -> str:
    """Name the float operator that a node stands for, such as `Conv` for a QLinearConv."""
    layout = layout_of(node)
    if layout is not None:
        return layout.op_type
    return FLOAT_OPERATORS.get(node.op_type, node.op_type)


def node_title(file: OnnxFile, node: ir.Node, owner: Owner) -> NodeTitle:
    return NodeTitle(
        name=node.name or _name_in_output(node),
        op_type=float_op_type(node),
        format=file.format,
        name_scopes=node.metadata_props.get(NAME_SCOPES, ""),
        class_hierarchy=node.metadata_props.get(CLASS_HIERARCHY, ""),
        owner=owner.of_weight,
        bias_owner=owner.of_bias,
        has_weight=owner.has_weight,
    )


def _name_in_output(node: ir.Node) -> str:
    """Find the name of an unnamed node in that of its result: `/act/Mul` of `/act/Mul_output_0`."""
    found = _OUTPUT.fullmatch(next(iter(output_names(node)), ""))
    return found["name"] if found else ""


def readings(graph: OnnxGraph, values: QuantizedValues, node: ir.Node) -> tuple[Reading, ...]:
    """List the inputs in the float operator's order, without scales and zero-points."""
    op_type = float_op_type(node)
    layout = layout_of(node)
    quantized_inside = () if layout is None else layout.run_time
    found = []
    for place, name in enumerate(_data_names(values, node)):
        if not name:
            continue
        run_time = values.run_time.get(name)
        if run_time is not None:
            reading = _reading(graph, values, op_type, place, run_time.source)
            found.append(replace(reading, run_time_dtype=run_time.dtype))
        else:
            reading = _reading(graph, values, op_type, place, name)
            is_inside = place in quantized_inside and reading.role == "activation"
            found.append(replace(reading, run_time_dtype="uint8") if is_inside else reading)
    return tuple(found)


def written_names(values: QuantizedValues, node: ir.Node) -> tuple[str, ...]:
    """List what a layer writes: its node's outputs, or what other nodes make of its sums."""
    product = values.products.get(node)
    return output_names(node) if product is None else (product.output,)


def read_value(graph: OnnxGraph, values: QuantizedValues, name: str) -> Reading:
    """Describe a value as nobody in particular reads it, such as an output of the model."""
    return _reading(graph, values, "", 0, name)


def _reading(
    graph: OnnxGraph, values: QuantizedValues, op_type: str, place: int, name: str
) -> Reading:
    """Describe one input; a constant is followed through layout changes to what is stored."""
    stored = name
    draft = _draft(values, stored)
    while draft is None and graph.is_constant(stored) and graph.tensor(stored) is None:
        node = graph.makers.get(stored)
        if node is None or node.op_type not in _LAYOUT:
            break
        stored = input_names(node)[0]
        draft = _draft(values, stored)
    kind = graph.type(name)
    dtype = draft.params.dtype if draft else kind.dtype
    is_constant = graph.is_constant(name) or (draft is not None and draft.read_integers is not None)
    shape = kind.shape
    sized = graph.sized.get(name, kind).shape
    if draft is not None and is_constant and name in draft.integer_names:
        shape = sized = draft.shape  # the file's own shape may be that of packed bytes
    return Reading(
        name=name,
        role=_constant_role(op_type, place, dtype, shape, draft) if is_constant else "activation",
        origin=values.origins.get(stored, stored),
        draft=draft,
        dtype=dtype,
        shape=shape,
        sized=shape if sized is None else sized,
    )


def _draft(values: QuantizedValues, name: str) -> Draft | None:
    return values.by_dequantized.get(name) or values.by_integer.get(name)


def _constant_role(
    op_type: str, place: int, dtype: str, shape: Shape | None, draft: Draft | None
) -> Literal["weight", "bias", "setting"]:
    """Tell what a constant is to the operator that reads it in this place."""
    is_number = draft is None and (dtype in _SETTING_TYPES or shape == ())
    if is_number or (draft is None and op_type in _NUMBERS_ARE_SETTINGS):
        return "setting"
    if op_type in _WEIGHT_THEN_BIAS:
        return "bias" if place == 2 else "weight"
    if op_type in ("Add", "Sub") or (op_type in ("MatMul", "BatchNormalization") and place == 2):
        return "bias"
    return "weight"


def _data_names(values: QuantizedValues, node: ir.Node) -> Iterator[str]:
    """List the inputs that are data, in the float operator's order."""
    names = input_names(node)
    layout = layout_of(node)
    if node.op_type in INTEGER_PRODUCTS:
        product = values.products.get(node)
        yield from (*names[:2], *([product.bias] if product and product.bias else []))
        return
    if node.op_type == "GatherBlockQuantized":
        yield from names[:2]
        return
    if node.op_type == "MatMulNBits" and node.domain == MICROSOFT:
        places = [0, 1, 5]  # the activation, the packed weight and the bias
    elif layout is None:
        yield from names
        return
    else:
        bias = [] if layout.bias is None else [layout.bias]
        places = sorted([slot.value for slot in layout.scaled] + list(layout.plain) + bias)
    yield from (names[place] for place in places if place < len(names))


def attributes_of(node: ir.Node) -> dict[str, AttributeValue]:
    """Give a node's numbers and strings; tensors only by type and shape, graphs not at all."""
    found: dict[str, AttributeValue] = {}
    if node.op_type == "MatMulNBits" and node.domain == MICROSOFT:
        found["transB"] = 1  # the operator does not say so: its weight is [N, K]
    for name, attribute in sorted(node.attributes.items()):
        value = attribute.value
        if isinstance(value, int | float | str):
            found[name] = value
        elif isinstance(value, bytes):
            found[name] = value.decode(errors="replace")
        elif attribute.type in _LISTS:
            found[name] = tuple(value)
        elif attribute.type == ir.AttributeType.TENSOR:
            found[name] = f"tensor {value.dtype.name.lower()}{list(value.shape)}"
    return found


_LISTS = (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS)


def subgraph_names(node: ir.Node) -> tuple[str, ...]:
    """List the attributes that hold graphs: `then_branch`, `body` or, in lists, `name[0]`."""
    names: list[str] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            names.append(attribute.name)
        elif attribute.type == ir.AttributeType.GRAPHS:
            names += [f"{attribute.name}[{index}]" for index in range(len(attribute.value))]
    return tuple(names)
