"""This module infers types and shapes of all tensors by onnx, on the graph without its weights."""

from collections.abc import Iterator
from typing import NamedTuple

import onnx
from onnx import helper

from quantscope.model.network import Dim, Shape
from quantscope.model.onnx.checks import weightless
from quantscope.model.onnx.tensors import OPEN_DIMENSION, element_type, shape_of

MICROSOFT = "com.microsoft"


class TensorType(NamedTuple):
    """The element type and shape of a value; `unknown` and None where they are not known."""

    dtype: str
    shape: Shape | None


def infer_types(
    proto: onnx.ModelProto, *, batch: int | None
) -> tuple[dict[str, TensorType], int | None]:
    """Infer the type of every value, and the batch put in for a dynamic first dimension, if any.

    With `batch=None` dynamic dimensions stay symbols. What cannot be inferred is as the file
    declares it, or missing.
    """
    skeleton = weightless(proto)
    declared = {value.name: value for value in skeleton.graph.value_info}
    used = None if batch is None else _set_batch(skeleton, batch)
    graph = _infer(skeleton).graph
    types = {tensor.name: _constant_type(tensor) for tensor in proto.graph.initializer}
    for value in (*declared.values(), *graph.value_info, *graph.input, *graph.output):
        found, before = _value_type(value), types.get(value.name, TensorType("unknown", None))
        types[value.name] = TensorType(
            before.dtype if found.dtype == "unknown" else found.dtype,
            before.shape if found.shape is None else found.shape,
        )
    return types, used


def infer_shapes(proto: onnx.ModelProto, *, batch: int) -> onnx.ModelProto:
    """Give the model without its weights, with the shapes of all values, inner graphs' too."""
    skeleton = weightless(proto)
    _set_batch(skeleton, batch)
    return _infer(skeleton)


def _infer(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    """Run onnx's inference; give the skeleton itself, as declared, where that gives up."""
    _replace_nodes(skeleton)
    # What the file says of its inner tensors may be stale; it only helps where onnx knows no rule.
    unknown = {
        name
        for node in skeleton.graph.node
        if node.domain not in ("", "ai.onnx")
        for name in node.output
    }
    kept = [value for value in skeleton.graph.value_info if value.name in unknown]
    skeleton.graph.ClearField("value_info")
    skeleton.graph.value_info.extend(kept)
    try:
        return onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except Exception:  # a rule gave up on an odd graph; the declared shapes are still true
        return skeleton


def _value_type(value: onnx.ValueInfoProto) -> TensorType:
    shape = shape_of(value.type)
    if shape is not None:
        shape = tuple(_known(dim) for dim in shape)
    return TensorType(element_type(value.type.tensor_type.elem_type), shape)


def _known(dim: Dim) -> Dim:
    """Drop the names that onnx gives to dimensions it could not work out: they mean nothing."""
    return None if isinstance(dim, str) and dim.startswith("unk__") else dim


def _constant_type(tensor: onnx.TensorProto) -> TensorType:
    return TensorType(element_type(tensor.data_type), tuple(tensor.dims))


def _set_batch(skeleton: onnx.ModelProto, batch: int) -> int | None:
    """Put a number for the dynamic first dimension of the inputs, wherever its symbol appears."""
    graph = skeleton.graph
    constants = {tensor.name for tensor in graph.initializer}
    symbols = set()
    found = False
    for value in (*graph.input, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == OPEN_DIMENSION:
                dim.Clear()
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in constants or not dims or dims[0].HasField("dim_value"):
            continue
        found = True
        symbols.add(dims[0].dim_param)
        dims[0].dim_value = batch
    if not found:
        return None
    symbols.discard("")
    for value in (*graph.input, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = batch
    # The declared shapes of the outputs would contradict the batch; they are inferred anew.
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return batch


def _replace_nodes(skeleton: onnx.ModelProto) -> None:
    """Put standard operators of the same shapes in the place of onnxruntime's own."""
    nodes = [new for node in skeleton.graph.node for new in _look_alike(skeleton, node)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    skeleton.graph.ClearField("node")
    skeleton.graph.node.extend(copies)


# onnxruntime's own operators that keep or combine shapes as a standard one does, and which of
# their inputs that one takes.
_ALIKE = {
    "DequantizeLinear": ("DequantizeLinear", (0, 1, 2)),
    "FusedConv": ("Conv", (0, 1)),
    "FusedGemm": ("Gemm", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QLinearLeakyRelu": ("Identity", (0,)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearSigmoid": ("Identity", (0,)),
    "QLinearSoftmax": ("Identity", (0,)),
    "QLinearWhere": ("Where", (0, 1, 4)),
    "QuantizeLinear": ("QuantizeLinear", (0, 1, 2)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "Gelu": ("Identity", (0,)),
    "FastGelu": ("Identity", (0,)),
    "QuickGelu": ("Identity", (0,)),
}
_KEPT_ATTRIBUTES = {
    "Conv": {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
    "Gemm": {"transA", "transB"},
    "AveragePool": {"auto_pad", "ceil_mode", "kernel_shape", "pads", "strides"},
    "QuantizeLinear": {"axis"},
    "DequantizeLinear": {"axis"},
}
_GIVES_FLOAT = {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}


def _look_alike(skeleton: onnx.ModelProto, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Give standard nodes with the shapes and types of this one, or the node itself."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    is_microsoft = node.domain == MICROSOFT and len(node.output) > 0
    if not is_microsoft or attributes.get("channels_last") or not node.input:
        yield node
    elif node.op_type == "QLinearConcat":
        yield _node("Concat", list(node.input[2::3]), node.output[0], axis=attributes.get("axis"))
    elif node.op_type == "QLinearReduceMean":
        yield from _reduce_mean(skeleton, node, attributes)
    elif node.op_type == "MatMulNBits":
        weight = f"{node.output[0]}/weight"
        sizes = [attributes.get("K"), attributes.get("N")]
        shape = [size if isinstance(size, int) else None for size in sizes]
        value = helper.make_tensor_value_info(weight, onnx.TensorProto.FLOAT, shape)
        skeleton.graph.input.append(value)
        yield _node("MatMul", [node.input[0], weight], node.output[0])
    elif node.op_type in _ALIKE and len(node.input) > max(_ALIKE[node.op_type][1]) - 1:
        op, indices = _ALIKE[node.op_type]
        kept = {k: v for k, v in attributes.items() if k in _KEPT_ATTRIBUTES.get(op, ())}
        inputs = [node.input[index] for index in indices if index < len(node.input)]
        is_float = node.op_type in _GIVES_FLOAT or (
            node.op_type == "QGemm" and (len(node.input) < 8 or not node.input[7])
        )
        inner = f"{node.output[0]}/integer" if is_float else node.output[0]
        yield _node(op, inputs, inner, **kept)
        if is_float:
            yield _node("Cast", [inner], node.output[0], to=onnx.TensorProto.FLOAT)
    else:
        yield node


def _reduce_mean(
    skeleton: onnx.ModelProto, node: onnx.NodeProto, attributes: dict[str, object]
) -> Iterator[onnx.NodeProto]:
    axes = list(attributes.get("axes") or [])  # type: ignore[call-overload]
    opset = max(
        (e.version for e in skeleton.opset_import if e.domain in ("", "ai.onnx")), default=1
    )
    keepdims = attributes.get("keepdims", 1)
    if opset < 18:  # from there on the axes are an input
        yield _node("ReduceMean", [node.input[0]], node.output[0], axes=axes, keepdims=keepdims)
        return
    name = f"{node.output[0]}/axes"
    skeleton.graph.initializer.append(
        helper.make_tensor(name, onnx.TensorProto.INT64, [len(axes)], axes)
    )
    yield _node("ReduceMean", [node.input[0], name], node.output[0], keepdims=keepdims)


def _node(op: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    node = helper.make_node(op, inputs, [output])
    node.attribute.extend(
        helper.make_attribute(key, value) for key, value in attributes.items() if value is not None
    )
    return node
