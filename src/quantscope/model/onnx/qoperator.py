"""This module reads operators that take integers and their scales as inputs.

`QLinearConv` and `QLinearMatMul` are ONNX; the others are onnxruntime's (`com.microsoft`).
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from quantscope.model.assemble import Draft
from quantscope.model.onnx.graph import OnnxGraph, attribute_float, attribute_int, output_names
from quantscope.model.onnx.quant_params import (
    NotShownError,
    QuantizedValues,
    checked_params,
    describe,
    padded_inputs,
    read_params,
    register,
)


class Scaled(NamedTuple):
    """The positions among the inputs of a quantized value, its scale and its zero-point.

    `axis` is that of a scale with one value per channel; `lies_along_axis` where it may be [1, C].
    """

    value: int
    scale: int
    zero_point: int
    axis: int | None = None
    lies_along_axis: bool = False


@dataclass(frozen=True)
class QOperator:
    """The layout of a QOperator's inputs, and the float operator (`op_type`) it stands for.

    `output` has the positions of the output's scale and zero-point; `bias` that of an integer bias
    whose scale is the product of the first two; `plain` are inputs without a scale, and `run_time`
    places in the float operator's order that it quantizes itself, by what it finds at run time.
    """

    op_type: str
    scaled: tuple[Scaled, ...]
    output: tuple[int, int] | None = None
    bias: int | None = None
    plain: tuple[int, ...] = ()
    run_time: tuple[int, ...] = ()


def _unary(op_type: str) -> QOperator:
    return QOperator(op_type, (Scaled(0, 1, 2),), output=(3, 4))


def _binary(op_type: str) -> QOperator:
    return QOperator(op_type, (Scaled(0, 1, 2), Scaled(3, 4, 5)), output=(6, 7))


_FIXED = {
    "QLinearConv": QOperator(
        "Conv", (Scaled(0, 1, 2), Scaled(3, 4, 5, axis=0)), output=(6, 7), bias=8
    ),
    "QLinearMatMul": QOperator(
        "MatMul", (Scaled(0, 1, 2, axis=-2), Scaled(3, 4, 5, axis=-1)), output=(6, 7)
    ),
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearAveragePool": _unary("AveragePool"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearReduceMean": _unary("ReduceMean"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _unary("Softmax"),
    "QLinearWhere": QOperator(
        "Where", (Scaled(1, 2, 3), Scaled(4, 5, 6)), output=(7, 8), plain=(0,)
    ),
    "MatMulIntegerToFloat": QOperator(
        "MatMul", (Scaled(0, 2, 4, axis=-2), Scaled(1, 3, 5, axis=-1)), plain=(6,)
    ),
    "DynamicQuantizeMatMul": QOperator(
        "MatMul", (Scaled(1, 2, 3, axis=-1),), plain=(0, 4), run_time=(0,)
    ),
    # The last two inputs are those of a state that comes in; the state itself is quantized, too.
    "DynamicQuantizeLSTM": QOperator(
        "LSTM",
        (Scaled(1, 8, 9, 2, lies_along_axis=True), Scaled(2, 10, 11, 2, lies_along_axis=True)),
        plain=(0, 3, 4, 5, 6, 7),
        run_time=(0, 5),
    ),
    "QAttention": QOperator(
        "Attention", (Scaled(0, 3, 6), Scaled(1, 4, 7, axis=1)), plain=(2, 5, 8)
    ),
    "QEmbedLayerNormalization": QOperator(
        "EmbedLayerNormalization",
        # Three embeddings and the two constants of the norm, then all scales, then all zero-points.
        tuple(Scaled(value, value + 6, value + 11) for value in range(2, 7)),
        plain=(0, 1, 7),
    ),
}

_MOST_INPUTS = 18


def _layout(op_type: str, *, input_count: int, trans_b: bool = False) -> QOperator | None:
    """Find the layout of an operator with this many inputs; None if it is no known QOperator."""
    if op_type == "QLinearConcat":
        parts = range(2, input_count - 2, 3)
        return QOperator("Concat", tuple(Scaled(i, i + 1, i + 2) for i in parts), output=(0, 1))
    if op_type == "QGemm":
        weight = Scaled(3, 4, 5, axis=0 if trans_b else 1)
        return QOperator("Gemm", (Scaled(0, 1, 2), weight), output=(7, 8), bias=6)
    return _FIXED.get(op_type)


def layout_of(node: ir.Node) -> QOperator | None:
    """Find the layout of a node's inputs; None if it is no known QOperator."""
    trans_b = attribute_int(node, "transB", 0) != 0
    return _layout(node.op_type, input_count=len(node.inputs), trans_b=trans_b)


def add_qoperator(
    graph: OnnxGraph, found: QuantizedValues, node: ir.Node, layout: QOperator
) -> None:
    """Add drafts of what the operator reads and writes, or notes that say why not."""
    names = padded_inputs(node, _MOST_INPUTS)
    read: list[Draft | None] = []
    for slot in layout.scaled:
        value, scale, zero_point = (names[index] for index in slot[:3])
        draft = None
        if value and scale:
            try:
                draft = describe(
                    graph,
                    found,
                    value,
                    scale,
                    zero_point,
                    axis=_axis(graph, slot, scale),
                    lies_along_axis=slot.lies_along_axis,
                )
            except NotShownError as reason:
                if not _is_run_time(graph, value, scale):
                    found.notes.append(f"{value} is not shown as quantized: {reason}")
        read.append(draft)
    if layout.bias is not None and names[layout.bias]:
        try:
            _add_bias(graph, found, names[layout.bias], read, attribute_float(node, "alpha", 1.0))
        except NotShownError as reason:
            found.notes.append(f"{names[layout.bias]} is not shown as quantized: {reason}")
    if layout.output is not None and names[layout.output[0]]:
        output = output_names(node)[0]
        try:
            _add_output(graph, found, node, output, *(names[index] for index in layout.output))
        except NotShownError as reason:
            found.notes.append(f"{output} is not shown as quantized: {reason}")


def _axis(graph: OnnxGraph, slot: Scaled, scale: str) -> int | None:
    """Give the axis of a value's scales; those of a recurrent layer may be one a direction."""
    scales = graph.array(scale)
    if not slot.lies_along_axis or scales is None or scales.size == 1:
        return slot.axis
    if scales.ndim == 1:
        return 0
    if scales.size != max(scales.shape):
        raise NotShownError(
            f"it has {scales.shape[-1]} scales for each of {scales.shape[0]} directions, and one "
            f"axis of scales is shown"
        )
    return slot.axis


def _is_run_time(graph: OnnxGraph, value: str, scale: str) -> bool:
    """Tell whether a value's scale is found at run time, which `dynamic.py` shows."""
    maker = graph.makers.get(value)
    return maker is not None and maker.op_type == "DynamicQuantizeLinear" and bool(scale)


def _add_output(
    graph: OnnxGraph,
    found: QuantizedValues,
    node: ir.Node,
    output: str,
    scale: str,
    zero_point: str,
) -> None:
    shape = graph.type(output).shape
    params = read_params(
        graph,
        tensor=output,
        scale=scale,
        zero_point=zero_point,
        dtype=graph.type(zero_point).dtype if zero_point else "uint8",
        axis=-2 if node.op_type == "QLinearMatMul" else None,
        shape=shape,
    )
    register(found, Draft(params, [output], scale, zero_point or None, shape))


def _add_bias(
    graph: OnnxGraph,
    found: QuantizedValues,
    name: str,
    read: list[Draft | None],
    alpha: float,
) -> None:
    """Add an int32 bias, which is counted in steps of the product of both scales."""
    x, weight = (*read, None, None)[:2]
    stored = graph.tensor(name)
    if x is None or weight is None or stored is None or name in found.by_integer:
        return
    if x.params.scale.ndim or weight.params.scale.ndim > 1:
        return
    scale = x.params.scale * weight.params.scale * np.float32(alpha)
    axis = 0 if scale.ndim else None
    params = checked_params(
        graph, tensor=name, scale=scale, zero_point=None, dtype="int32", axis=axis
    )
    draft = Draft(params, [name], None, None, tuple(stored.shape.numpy()))
    draft.read_integers = partial(graph.read, stored)
    register(found, draft)
