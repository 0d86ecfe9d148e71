"""Find what onnxruntime really executes: which layers as integers, which as float, and why.

It is read from the graph that onnxruntime's own optimizer writes, not from a list of what it
should do.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from quantscope.edit import Editor
from quantscope.model import Network, read_onnx
from quantscope.model.onnx import QDQ_OPS, QOPERATOR_OPS, OnnxModel
from quantscope.run.kernels import INT8_OPTION, MOVING_OPS, KernelChange, KernelMap, LayerKernel
from quantscope.run.onnx.sessions import read_optimized, session_options
from quantscope.run.onnx.suffix import ValueGraph, executed_graph


def name_by_layer(proto: onnx.ModelProto, network: Network) -> onnx.ModelProto:
    """Copy a model so that nodes carry their layers' names; others get a name of their own."""
    named = onnx.ModelProto()
    named.CopyFrom(proto)
    layers = {operand.name: layer.name for layer in network.layers for operand in layer.outputs}
    for number, node in enumerate(named.graph.node):
        known = (layers[name] for name in node.output if name in layers)
        node.name = next(known, f"{node.op_type}:{number}")
    return named


TensorTypes = Mapping[str, tuple[int, tuple[int, ...]]]
"""The element type by name, and the shape where the tensor is a constant."""

# Kernels that multiply uint8 by int8 in pairs with 16-bit saturation on x86 without VNNI, and where
# they have data, weights and the two zero-points. ConvInteger's does not saturate.
SATURATING_OPS = {
    "MatMulInteger": (0, 1, 2, 3),
    "MatMulIntegerToFloat": (0, 1, 4, 5),
    "QGemm": (0, 3, 2, 5),
    "QLinearConv": (0, 3, 2, 5),
    "QLinearMatMul": (0, 3, 2, 5),
}
# onnxruntime fuses a layer whose bias scale is that close to s_x * s_w.
BIAS_SCALE_TOLERANCE = 0.01


def map_model(model: OnnxModel, *, int8_kernels: bool | None = None) -> KernelMap:
    """Ask onnxruntime's optimizer what it makes of each layer, named as `Network` names them."""
    return map_kernels(name_by_layer(model.proto, model.network), int8_kernels=int8_kernels)


def map_kernels(model: onnx.ModelProto, *, int8_kernels: bool | None = None) -> KernelMap:
    """Ask onnxruntime's optimizer what it makes of each node on this CPU."""
    proto = _copy(model)
    _name_all(proto)
    # What runs is ORT_ENABLE_ALL, which rewrites names; at EXTENDED most of them survive.
    optimized = _optimize(proto, int8_kernels, "ORT_ENABLE_EXTENDED")
    executed = {node.name: node for node in optimized.graph.node}
    types = _tensor_types(optimized)
    reasons = _Reasons(proto, int8_kernels)
    layers = tuple(
        _layer(node, executed.get(node.name), types, reasons)
        for node in proto.graph.node
        if _computes(node.op_type)
    )
    whole = _optimize(proto, int8_kernels, "ORT_ENABLE_ALL")
    return KernelMap(
        layers=layers,
        option={None: "platform default", True: "1", False: "0"}[int8_kernels],
        names_survived=_integer_counts(optimized) == _integer_counts(whole),
    )


def _computes(op_type: str) -> bool:
    return op_type not in QDQ_OPS and op_type != "Constant"


def _layer(
    node: onnx.NodeProto,
    executed: onnx.NodeProto | None,
    types: TensorTypes,
    reasons: "_Reasons",
) -> LayerKernel:
    if executed is None:
        return LayerKernel(node.name, node.op_type, "fused", None)
    op = executed.op_type
    if op in QOPERATOR_OPS:
        saturates = op in SATURATING_OPS and _can_saturate(executed, types)
        return LayerKernel(node.name, node.op_type, "integer", op, saturates=saturates)
    if op in MOVING_OPS:
        return LayerKernel(node.name, node.op_type, "moves data", op)
    return LayerKernel(node.name, node.op_type, "float", op, reasons.of(node))


def _tensor_types(optimized: onnx.ModelProto) -> TensorTypes:
    """Collect the types of all that an integer kernel reads."""
    graph = optimized.graph
    types = {t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        types.setdefault(value.name, (value.type.tensor_type.elem_type, ()))
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            zero_point = types.get(node.input[2]) if len(node.input) > 2 else None
            # Without a zero-point, ONNX says uint8.
            types[node.output[0]] = (zero_point[0] if zero_point else onnx.TensorProto.UINT8, ())
    return types


def _can_saturate(node: onnx.NodeProto, types: TensorTypes) -> bool:
    x, w, x_zero, w_zero = SATURATING_OPS[node.op_type]

    def element_type(zero_point: int, tensor: int) -> int | None:
        """Give the zero-point's type, which is its tensor's; the tensor's where it is left out."""
        given = [node.input[k] for k in (zero_point, tensor) if k < len(node.input)]
        return next((types[name][0] for name in given if name in types), None)

    if element_type(x_zero, x) != onnx.TensorProto.UINT8:
        return False
    if element_type(w_zero, w) != onnx.TensorProto.INT8:
        return False
    return not (node.op_type == "QLinearConv" and _is_depthwise(node, types))


def _is_depthwise(node: onnx.NodeProto, types: TensorTypes) -> bool:
    """Say whether each group has one channel in and out: that kernel of onnxruntime is exact."""
    shape = types.get(node.input[3], (0, ()))[1]
    group = next((a.i for a in node.attribute if a.name == "group"), 1)
    return len(shape) > 1 and shape[0] == group and shape[1] == 1


class _Reasons:
    """Knows why a layer is executed as float, as far as the file and a second look can tell."""

    def __init__(self, proto: onnx.ModelProto, int8_kernels: bool | None):
        graph = proto.graph
        self.makers = {name: node for node in graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.outputs = {value.name for value in graph.output}
        self.quantized = any(_is_quantizing(node.op_type) for node in graph.node)
        self.with_option: set[str] = set()
        if self.quantized and int8_kernels is not True:
            # What is fused with the option, and not without, is float only for want of it.
            allowed = _optimize(proto, True, "ORT_ENABLE_EXTENDED")
            self.with_option = {n.name for n in allowed.graph.node if n.op_type in QOPERATOR_OPS}

    def of(self, node: onnx.NodeProto) -> str | None:
        if not self.quantized:
            return "the model is not quantized"
        if node.name in self.with_option:
            return f"onnxruntime fuses this int8 layer only with {INT8_OPTION}=1 (--int8-kernels)"
        floats = [name for name in node.input[:2] if name and not self._dequantized(name)]
        if floats:
            return f"its input '{floats[0]}' is not quantized"
        return self._output_reason(node.output[0]) or self._bias_reason(node)

    def _output_reason(self, output: str) -> str | None:
        readers = [user.op_type for user in self.users.get(output, [])]
        if "QuantizeLinear" not in readers:
            return f"its output '{output}' is not quantized"
        if output in self.outputs or len(readers) > 1:
            return f"its output '{output}' is also read before it is quantized"
        return None

    def _dequantized(self, name: str) -> bool:
        maker = self.makers.get(name)
        return maker is not None and maker.op_type == "DequantizeLinear"

    def _bias_reason(self, node: onnx.NodeProto) -> str | None:
        # A float bias is fused too.
        if len(node.input) < 3 or not self._dequantized(node.input[2]):
            return None
        x, w, bias = (self._scale(name) for name in node.input[:3])
        if x is None or w is None or bias is None:
            return None
        if not np.allclose(x * w, bias, rtol=BIAS_SCALE_TOLERANCE, atol=0):
            return "the scale of its bias is not the product of its input's and weights' scales"
        return None

    def _scale(self, dequantized: str) -> np.ndarray[Any, Any] | None:
        tensor = self.constants.get(self.makers[dequantized].input[1])
        return None if tensor is None else numpy_helper.to_array(tensor)


def _is_quantizing(op_type: str) -> bool:
    return op_type in QDQ_OPS or op_type in QOPERATOR_OPS


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _name_all(proto: onnx.ModelProto) -> None:
    """Give each node a name of its own: names are what can be followed through the optimizer."""
    taken = Counter(node.name for node in proto.graph.node)
    for number, node in enumerate(proto.graph.node):
        if not node.name or taken[node.name] > 1:
            node.name = f"{node.name or node.op_type}#{number}"


def _optimize(proto: onnx.ModelProto, int8_kernels: bool | None, level: str) -> onnx.ModelProto:
    """Read back the graph that onnxruntime's optimizer makes at this level."""
    options = session_options("runtime", int8_kernels=int8_kernels)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    return read_optimized(proto, options)


def _integer_counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in model.graph.node if n.op_type in QOPERATOR_OPS)


class KernelWatch:
    """Knows how the unedited model is executed. Of a QOperator model that is the file itself."""

    def __init__(self, model: OnnxModel, editor: Editor, *, int8_kernels: bool | None) -> None:
        self._model, self._editor, self._int8_kernels = model, editor, int8_kernels

    def changes(
        self, edited: onnx.ModelProto, executed: ValueGraph | None = None
    ) -> tuple[KernelChange, ...]:
        """Give the layers that run otherwise; `executed` is the edited model's optimized graph."""
        graph = executed or self._executed(edited)
        # Same operators on the same types and shapes: no need to ask layer by layer, which is slow.
        if graph.structure == self._base_structure:
            return ()
        after = self._kernels(edited, self._edited_network)
        return tuple(
            KernelChange(name, _text(before), _text(after[name]))
            for name, before in self._base_kernels.items()
            if name in after and _text(before) != _text(after[name])
        )

    def _executed(self, proto: onnx.ModelProto) -> ValueGraph:
        return executed_graph(proto, "runtime", int8_kernels=self._int8_kernels)

    def _kernels(self, proto: onnx.ModelProto, network: Network) -> dict[str, LayerKernel]:
        named = name_by_layer(proto, network)
        layers = map_kernels(named, int8_kernels=self._int8_kernels).layers
        return {layer.name: layer for layer in layers}

    @cached_property
    def _base_structure(self) -> bytes:
        return self._executed(self._model.proto).structure

    @cached_property
    def _base_kernels(self) -> dict[str, LayerKernel]:
        return self._kernels(self._model.proto, self._model.network)

    @cached_property
    def _edited_network(self) -> Network:
        """The edited model's network: layers named as in the file, values perhaps otherwise."""
        if not self._editor.lifted:
            return self._model.network
        return read_onnx(replace(self._model.file, hollow=self._editor.base))


def _text(layer: LayerKernel) -> str:
    if layer.executed_as is None:
        return "merged into another"
    saturating = ", can saturate" if layer.saturates else ""
    return f"{layer.kernel} {layer.executed_as}{saturating}"
