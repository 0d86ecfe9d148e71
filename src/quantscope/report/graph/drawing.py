"""Hold a drawing of a graph as a value: what is drawn, before it has places and pixels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["compute", "join", "pool", "function", "move", "quantizer", "port", "other"]

_OP_TYPES: Mapping[Kind, str] = {
    "compute": "Conv ConvTranspose Gemm QGemm MatMul LSTM GRU RNN Attention ConvInteger "
    "MatMulInteger MatMulNBits",
    "join": "Add Sub Mul Div Concat Sum Max Min Mean Where",
    "pool": "AveragePool GlobalAveragePool MaxPool GlobalMaxPool ReduceMean ReduceMax LpPool",
    "function": "Relu Clip Sigmoid Tanh Softmax LeakyRelu PRelu Elu Gelu HardSwish HardSigmoid Erf "
    "Exp Sqrt Pow LayerNormalization BatchNormalization InstanceNormalization",
    "move": "Reshape Flatten Transpose Squeeze Unsqueeze Slice Split Gather Pad Expand Identity "
    "Cast Resize Shape Constant DepthToSpace SpaceToDepth Tile",
    "quantizer": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
}
_KINDS = {op_type: kind for kind, names in _OP_TYPES.items() for op_type in names.split()}


@dataclass(frozen=True)
class Node:
    """A box of the drawing. `key` is safe in any format; `lines` stand below the name.

    `value` colours it where the drawing has a legend; None is then drawn grey.
    """

    key: str
    name: str
    kind: Kind
    corner: str = ""
    lines: tuple[str, ...] = ()
    hover: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Link:
    """An edge by the keys of its ends. `is_shortcut`: it is part of a residual path."""

    source: str
    target: str
    label: str = ""
    hover: str = ""
    is_shortcut: bool = False
    is_float: bool = False


@dataclass(frozen=True)
class Legend:
    """The meaning of the colours; `low` and `high` are equal where there is a single value.

    `missing` counts the layers without a value.
    """

    metric: str
    unit: str
    low: float
    high: float
    missing: int


@dataclass(frozen=True)
class Drawing:
    """A whole graph with every text that is shown; without a legend, nodes are coloured by kind."""

    title: str
    subtitle: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    legend: Legend | None = None


def kind_of(op_type: str) -> Kind:
    """Tell what an operator does, whether it is the float one or its QLinear form."""
    return _KINDS.get(op_type.removeprefix("QLinear"), "other")
