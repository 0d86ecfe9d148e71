"""What the runtime really executes: which layers as integers, which fall back to float, and why.

Read from the graph that onnxruntime's own optimizer writes, not from a list of what it should do.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from quantscope.errors import BadModelError
from quantscope.model.onnx_file import QDQ_OPS, QOPERATOR_OPS, load_onnx
from quantscope.run.sessions import INT8_OPTION, reason_of, session_options

Kernel = Literal["integer", "float", "fused", "moves data"]

# They compute nothing: whatever type arrives, leaves.
MOVING_OPS = frozenset(
    {
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape"),
        *("Shape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)
# Kernels that multiply weights, whose 8-bit products saturate on x86 without VNNI.
MULTIPLYING_OPS = frozenset(
    {
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "QGemm",
        "QLinearConv",
        "QLinearMatMul",
    }
)


@dataclass(frozen=True)
class LayerKernel:
    """How one operator of the model is executed."""

    name: str
    op_type: str
    kernel: Kernel
    executed_as: str | None
    """The operator that runs, or None when the optimizer merged this one into another."""
    why: str | None = None
    """Why it is not an integer kernel, where that is known."""
    saturates: bool = False
    """Whether it multiplies uint8 by int8, which saturates on x86 without VNNI."""


@dataclass(frozen=True)
class KernelMap:
    """One entry for each operator of the file but Q and DQ, in the file's order."""

    layers: tuple[LayerKernel, ...]
    option: str
    """The value of `session.qdqisint8allowed`, or "platform default"."""
    names_survived: bool
    """Whether full optimization, whose names cannot be read, has as many integer operators."""

    @property
    def integer_layers(self) -> int:
        return sum(layer.kernel == "integer" for layer in self.layers)

    @property
    def computing_layers(self) -> int:
        return sum(layer.kernel in ("integer", "float") for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        return {
            "integer_layers": self.integer_layers,
            "computing_layers": self.computing_layers,
            INT8_OPTION: self.option,
            "names_survived": self.names_survived,
            "layers": [dict(layer.__dict__) for layer in self.layers],
        }


def kernel_map(model: Path | onnx.ModelProto, *, int8_kernels: bool | None = None) -> KernelMap:
    """Ask onnxruntime's optimizer what it makes of each layer on this CPU."""
    proto = load_onnx(model).load_proto() if isinstance(model, Path) else _copy(model)
    _name_all(proto)
    optimized = _optimized(proto, int8_kernels, "ORT_ENABLE_EXTENDED")
    executed = {node.name: node for node in optimized.graph.node}
    types = _integer_types(optimized)
    reasons = _Reasons(proto, int8_kernels)
    layers = tuple(
        _layer(node, executed.get(node.name), types, reasons)
        for node in proto.graph.node
        if _computes(node.op_type)
    )
    whole = _optimized(proto, int8_kernels, "ORT_ENABLE_ALL")
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
    types: Mapping[str, int],
    reasons: "_Reasons",
) -> LayerKernel:
    if executed is None:
        return LayerKernel(node.name, node.op_type, "fused", None)
    op = executed.op_type
    if op in QOPERATOR_OPS:
        saturates = op in MULTIPLYING_OPS and _is_u8s8(executed, types)
        return LayerKernel(node.name, node.op_type, "integer", op, saturates=saturates)
    if op in MOVING_OPS:
        return LayerKernel(node.name, node.op_type, "moves data", op)
    return LayerKernel(node.name, node.op_type, "float", op, reasons.of(node))


def _integer_types(optimized: onnx.ModelProto) -> dict[str, int]:
    """Element types of the constants; a zero-point has the type of its tensor."""
    return {tensor.name: tensor.data_type for tensor in optimized.graph.initializer}


def _is_u8s8(node: onnx.NodeProto, types: Mapping[str, int]) -> bool:
    x_zero, w_zero = (2, 3) if node.op_type in ("ConvInteger", "MatMulInteger") else (2, 5)
    if len(node.input) <= w_zero:
        return False
    x, w = types.get(node.input[x_zero]), types.get(node.input[w_zero])
    return x == onnx.TensorProto.UINT8 and w == onnx.TensorProto.INT8


class _Reasons:
    """Why a layer is executed as float, as far as the file and a second look can tell."""

    def __init__(self, proto: onnx.ModelProto, int8_kernels: bool | None):
        graph = proto.graph
        self.makers = {name: node for node in graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.outputs = {value.name for value in graph.output}
        self.quantized = any(_is_quantizing(node.op_type) for node in graph.node)
        self.with_option: set[str] = set()
        if self.quantized and int8_kernels is not True:
            allowed = _optimized(proto, True, "ORT_ENABLE_EXTENDED")
            self.with_option = {n.name for n in allowed.graph.node if n.op_type in QOPERATOR_OPS}

    def of(self, node: onnx.NodeProto) -> str | None:
        if not self.quantized:
            return "the model is not quantized"
        if node.name in self.with_option:
            return f"onnxruntime fuses this int8 layer only with {INT8_OPTION}=1 (--int8-kernels)"
        floats = [name for name in node.input[:2] if name and not self._dequantized(name)]
        if floats:
            return f"its input '{floats[0]}' is not quantized"
        if not self._is_requantized(node.output[0]):
            return f"its output '{node.output[0]}' is not quantized"
        if len(node.input) > 2 and (why := self._bias_mismatch(node)):
            return why
        return None

    def _dequantized(self, name: str) -> bool:
        maker = self.makers.get(name)
        return maker is not None and maker.op_type == "DequantizeLinear"

    def _is_requantized(self, name: str) -> bool:
        users = self.users.get(name, [])
        return any(user.op_type == "QuantizeLinear" for user in users)

    def _bias_mismatch(self, node: onnx.NodeProto) -> str | None:
        if not self._dequantized(node.input[2]):
            return f"its bias '{node.input[2]}' is not quantized"
        x, w, bias = (self._scale(name) for name in node.input[:3])
        if x is None or w is None or bias is None:
            return None
        if not np.allclose(x * w, bias, rtol=1e-5, atol=0):
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
    """Names are what can be followed through the optimizer, so each node needs one of its own."""
    taken = Counter(node.name for node in proto.graph.node)
    for number, node in enumerate(proto.graph.node):
        if not node.name or taken[node.name] > 1:
            node.name = f"{node.name or node.op_type}#{number}"


def _optimized(proto: onnx.ModelProto, int8_kernels: bool | None, level: str) -> onnx.ModelProto:
    options = session_options("runtime", int8_kernels=int8_kernels)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's exceptions share no base class of their own
            raise BadModelError(f"onnxruntime cannot run the model: {reason_of(error)}") from None
        return onnx.load(path)


def _integer_counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in model.graph.node if n.op_type in QOPERATOR_OPS)
