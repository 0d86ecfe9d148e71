"""This module states QOperator models as QDQ: the same arithmetic, in operators taken apart.

A QLinearConv hides its steps in one kernel. Lifted, it is DequantizeLinear, Conv, QuantizeLinear:
what the file states, without what a kernel makes of it. Integer tensors keep their names.
"""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, numpy_helper

from quantscope.errors import BadModelError

PER_AXIS_OPSET = 13
"""The first opset whose DequantizeLinear takes scales by channel."""

# Operators whose inputs are one tensor with its scale and zero-point, then the output's.
_UNARY = {
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearSigmoid": "Sigmoid",
}
_BINARY = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
LIFTED_OPS = frozenset(
    {"QLinearConv", "QLinearMatMul", "QGemm", "QLinearConcat", "QLinearSoftmax", *_UNARY, *_BINARY}
)
"""Operators that have a form as QDQ."""
# How the kernel works, not what the operator computes.
_KERNEL_ATTRIBUTES = ("channels_last", "opset")
_SOFTMAX_OF_ONE_AXIS = 13  # before this opset it was one of all axes from the named one on


def lift_to_qdq(model: onnx.ModelProto) -> onnx.ModelProto:
    """State every QLinear operator as DequantizeLinear, float operator and QuantizeLinear.

    Operators without such a form (dynamic ones, MatMulNBits) stay as they are. The given model is
    not changed.
    """
    stated = _with_axes(model)
    lifter = _Lifter(stated.graph)
    for node in stated.graph.node:
        lifter.lift(node)
    lifted = onnx.ModelProto()
    lifted.CopyFrom(stated)
    del lifted.graph.node[:]
    lifted.graph.node.extend(lifter.nodes)
    lifted.graph.initializer.extend(lifter.initializers)
    return lifted


def _with_axes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give the model itself, or a copy in the first opset that has per-axis DequantizeLinear."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset >= PER_AXIS_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, PER_AXIS_OPSET)
    except Exception as error:  # the converter raises many kinds; each means that it cannot
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadModelError(
            f"A QOperator model of opset {opset} is stated as QDQ in opset {PER_AXIS_OPSET}, and "
            f"onnx cannot convert this one: {reason}"
        ) from None


def _is_old_softmax(node: onnx.NodeProto, ranks: Mapping[str, int]) -> bool:
    """Tell whether a QLinearSoftmax is over several axes, which today's Softmax cannot state.

    `ranks` are the numbers of axes of values, as far as the file says them.
    """
    if node.op_type != "QLinearSoftmax":
        return False
    attributes = {a.name: a.i for a in node.attribute}
    axis = attributes.get("axis", -1)
    is_last = axis in (-1, ranks.get(node.output[0], 0) - 1)
    return attributes.get("opset", 0) < _SOFTMAX_OF_ONE_AXIS and not is_last


def _ranks(graph: onnx.GraphProto) -> dict[str, int]:
    """Read how many axes values have; what is dequantized has those of its result."""
    stated = (*graph.input, *graph.value_info, *graph.output)
    found = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in stated
        if value.type.tensor_type.HasField("shape")
    }
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.output[0] in found:
            found.setdefault(node.input[0], found[node.output[0]])
    return found


class _Lifter:
    """The nodes and constants of the new graph, as they are made node by node.

    `real` remembers which values were dequantized, by tensor, scale and zero-point.
    """

    def __init__(self, graph: onnx.GraphProto):
        self.ranks = _ranks(graph)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.real: dict[tuple[str, str, str], str] = {}
        self.names = {name for node in graph.node for name in (*node.input, *node.output)}

    def lift(self, node: onnx.NodeProto) -> None:
        """Add the node as QDQ, or as it is where it has no such form."""
        forms: dict[str, Callable[[onnx.NodeProto], None]] = {
            "QLinearConv": self._conv,
            "QLinearMatMul": self._matmul,
            "QGemm": self._gemm,
            "QLinearConcat": self._concat,
            "QLinearSoftmax": self._softmax,
            **dict.fromkeys(_UNARY, self._unary),
            **dict.fromkeys(_BINARY, self._binary),
        }
        if node.op_type not in forms or _is_old_softmax(node, self.ranks):
            self.nodes.append(node)
            return
        if any(a.name == "channels_last" and a.i for a in node.attribute):
            raise BadModelError(
                f"'{node.name or node.op_type}' is {node.op_type} in channels-last form, which "
                f"only onnxruntime's optimizer makes; give the model it was made from"
            )
        try:
            forms[node.op_type](node)
        except (ValueError, TypeError):  # onnx's checker knows none of onnxruntime's operators
            raise BadModelError(
                f"'{node.name or node.op_type}' has other inputs or attributes than "
                f"{node.op_type} takes"
            ) from None

    def _conv(self, node: onnx.NodeProto) -> None:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.input[:8]
        inputs = [self._dequantized(x, x_scale, x_zero)]
        inputs.append(self._dequantized(w, w_scale, w_zero, axis=0))
        if len(node.input) > 8 and node.input[8]:
            inputs.append(self._bias(node.input[8], x_scale, w_scale))
        self._operator(node, "Conv", inputs, y_scale, y_zero)

    def _matmul(self, node: onnx.NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
        # Per row of the first, per column of the second operand.
        inputs = [
            self._dequantized(a, a_scale, a_zero, axis=-2),
            self._dequantized(b, b_scale, b_zero, axis=-1),
        ]
        self._operator(node, "MatMul", inputs, y_scale, y_zero)

    def _gemm(self, node: onnx.NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero = node.input[:6]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        c, y_scale, y_zero = (*node.input[6:], "", "", "")[:3]
        b_axis = 0 if attributes.get("transB", 0) else 1
        inputs = [
            self._dequantized(a, a_scale, a_zero),
            self._dequantized(b, b_scale, b_zero, axis=b_axis),
        ]
        if c:
            alpha = float(attributes.get("alpha", 1.0))
            inputs.append(self._bias(c, a_scale, b_scale, factor=alpha))
        self._operator(node, "Gemm", inputs, y_scale, y_zero)

    def _unary(self, node: onnx.NodeProto) -> None:
        x, x_scale, x_zero, y_scale, y_zero = (*node.input, "")[:5]
        inputs = [self._dequantized(x, x_scale, x_zero)]
        self._operator(node, _UNARY[node.op_type], inputs, y_scale, y_zero)

    def _softmax(self, node: onnx.NodeProto) -> None:
        x, x_scale, x_zero, y_scale, y_zero = (*node.input, "")[:5]
        inputs = [self._dequantized(x, x_scale, x_zero)]
        self._operator(node, "Softmax", inputs, y_scale, y_zero)

    def _binary(self, node: onnx.NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (*node.input, "")[:8]
        inputs = [self._dequantized(a, a_scale, a_zero), self._dequantized(b, b_scale, b_zero)]
        self._operator(node, _BINARY[node.op_type], inputs, y_scale, y_zero)

    def _concat(self, node: onnx.NodeProto) -> None:
        y_scale, y_zero, *rest = node.input
        triples = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        self._operator(node, "Concat", [self._dequantized(*t) for t in triples], y_scale, y_zero)

    def _operator(
        self, node: onnx.NodeProto, op: str, inputs: list[str], y_scale: str, y_zero: str
    ) -> None:
        """Add the float operator and, if there is an output scale, its QuantizeLinear."""
        (output,) = node.output
        quantized = bool(y_scale)
        result = self._fresh(f"{output}.float") if quantized else output
        made = helper.make_node(op, inputs, [result], name=node.name)
        made.attribute.extend(a for a in node.attribute if a.name not in _KERNEL_ATTRIBUTES)
        self.nodes.append(made)
        if quantized:
            parameters = [y_scale, y_zero] if y_zero else [y_scale]
            self.nodes.append(
                helper.make_node(
                    "QuantizeLinear", [result, *parameters], [output], name=f"{output}.quantize"
                )
            )

    def _dequantized(self, tensor: str, scale: str, zero: str, *, axis: int | None = None) -> str:
        """Give the name of a tensor's real values, which are made once for all that use them."""
        key = tensor, scale, zero
        if key not in self.real:
            name = self._fresh(f"{tensor}.real")
            inputs = [tensor, scale, zero] if zero else [tensor, scale]
            scales = self.constants.get(scale)
            per_axis = scales is not None and int(np.prod(scales.dims)) > 1
            made = helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}.dequantize")
            if per_axis and axis is not None:
                made.attribute.append(helper.make_attribute("axis", axis))
            self.nodes.append(made)
            self.real[key] = name
        return self.real[key]

    def _bias(self, bias: str, x_scale: str, w_scale: str, *, factor: float = 1.0) -> str:
        """Dequantize an int32 bias, which counts in steps of the product of the two scales."""
        if not {x_scale, w_scale} <= self.constants.keys():
            raise BadModelError(
                f"The scales of the bias '{bias}' are computed while the model runs; "
                f"only constant scales can be stated as QDQ"
            )
        x, w = (numpy_helper.to_array(self.constants[name]) for name in (x_scale, w_scale))
        if x.size != 1:
            raise BadModelError(f"The scale {x_scale!r} of an input has {x.size} values, not one")
        scale = (np.float32(factor) * x * w).astype(np.float32)
        name = self._fresh(f"{bias}.scale")
        self.initializers.append(
            numpy_helper.from_array(
                scale.reshape(-1) if scale.size > 1 else scale.reshape(()), name
            )
        )
        self.constants[name] = self.initializers[-1]
        return self._dequantized(bias, name, "", axis=0)

    def _fresh(self, name: str) -> str:
        """Take `name`, or the first of its numbered variants that the model does not use yet."""
        candidate, number = name, 2
        while candidate in self.names:
            candidate, number = f"{name}_{number}", number + 1
        self.names.add(candidate)
        return candidate
