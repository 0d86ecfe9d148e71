"""This module finds where a quantizer may stand for a ReLU, and where it clips nothing at all."""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from quantscope.arithmetic import dequantize
from quantscope.model.assemble import Draft
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.qoperator import layout_of
from quantscope.model.onnx.quant_params import QuantizedValues
from quantscope.model.relus import may_stand_for_relu

_NEVER_NEGATIVE = frozenset(
    {
        "Abs",
        "Exp",
        "HardSigmoid",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "Relu",
        "Sigmoid",
        "Softmax",
        "Softplus",
        "Sqrt",
    }
)
# These give nothing negative if they are given nothing negative.
_KEEPS_SIGN = frozenset(
    {
        "Add",
        "AveragePool",
        "Cast",
        "Concat",
        "DepthToSpace",
        "Div",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Identity",
        "MaxPool",
        "Mul",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
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
_JOINS = frozenset({"Add", "Concat", "Div", "Mul"})
# The least that some functions give; with a constant added, as in Gelu's 1 + erf, that is enough.
_LEAST = {"Cos": -1.0, "Erf": -1.0, "Sin": -1.0, "Softsign": -1.0, "Tanh": -1.0}
_MOST_VALUES = 100_000
"""Larger constants are not read to see their sign: they are weights, which have both."""


def relu_drafts(graph: OnnxGraph, values: QuantizedValues) -> set[Draft]:
    """Find the drafts that may stand for a ReLU: they clip what the layer before can give."""
    clipped, computed = _never_negative(graph, values)
    readers = _readers(graph)
    found = set()
    for draft in values.drafts:
        harmless = clipped if draft.float_name else computed
        if draft.clips_negatives and draft.value not in harmless:
            maker = graph.makers.get(draft.value)
            readings = [
                node
                for name in {*draft.integer_names, *draft.dequantized_names}
                for node in readers.get(name, ())
                if node not in values.absorbed
            ]
            adds_bias = any(_adds_constant(graph, node) for node in readings)
            kinds = [_kind(node) for node in readings]
            if maker is not None and may_stand_for_relu(_kind(maker), kinds, adds_bias=adds_bias):
                found.add(draft)
    return found


def _readers(graph: OnnxGraph) -> dict[str, list[ir.Node]]:
    readers: dict[str, list[ir.Node]] = {}
    for node in graph.nodes:
        for name in set(input_names(node)):
            readers.setdefault(name, []).append(node)
    return readers


def _kind(node: ir.Node) -> str:
    layout = layout_of(node)
    return layout.op_type if layout else node.op_type


def _adds_constant(graph: OnnxGraph, node: ir.Node) -> bool:
    return _kind(node) == "Add" and any(graph.is_constant(name) for name in input_names(node)[:2])


def _never_negative(graph: OnnxGraph, values: QuantizedValues) -> tuple[set[str], set[str]]:
    """Find the values without negatives, and among them those that need no quantizer for that."""
    found: set[str] = set()
    computed: set[str] = set()
    for node in graph.nodes:
        names = [name for name in output_names(node) if name]
        if node in values.absorbed:
            draft = values.by_integer[_integer_side(node)]
            if draft.clips_negatives or input_names(node)[0] in found:
                found.update(names)
            continue
        if _gives_none(graph, values, node, found):
            found.update(names)
            computed.update(names)
        for name in names:
            made = values.by_integer.get(name)
            if made is not None and made.clips_negatives:
                found.add(name)
    return found, computed


def _integer_side(node: ir.Node) -> str:
    is_quantize = node.op_type == "QuantizeLinear"
    return output_names(node)[0] if is_quantize else input_names(node)[0]


def _gives_none(graph: OnnxGraph, values: QuantizedValues, node: ir.Node, found: set[str]) -> bool:
    """Tell whether a node gives no negatives, if the values `found` have none."""
    layout = layout_of(node)
    op_type = layout.op_type if layout else node.op_type
    names = input_names(node)
    if op_type in _NEVER_NEGATIVE:
        return True
    if op_type == "Clip":
        lowest = graph.array(names[1]) if len(names) > 1 else node.attributes.get("min")
        smallest = lowest.value if isinstance(lowest, ir.Attr) else lowest
        return smallest is not None and bool(np.all(np.asarray(smallest, np.float64) >= 0))
    if op_type == "Pow":
        power = graph.array(names[1]) if len(names) > 1 else None
        is_even = power is not None and bool(np.all(np.asarray(power, np.float64) % 2 == 0))
        return is_even or names[0] in found
    if op_type not in _KEEPS_SIGN:
        return False
    if layout is not None:
        read = [names[slot.value] for slot in layout.scaled if slot.value < len(names)]
    else:
        read = [name for name in names if name] if op_type in _JOINS else list(names[:1])
    is_square = op_type == "Mul" and len(read) > 1 and len(set(read)) == 1
    is_lifted = op_type == "Add" and sum(_least(graph, values, read)) >= 0
    given_none = bool(read) and all(
        name in found or _constant_least(graph, values, name) >= 0 for name in read
    )
    return is_square or is_lifted or given_none


def _least(graph: OnnxGraph, values: QuantizedValues, names: list[str]) -> Iterator[float]:
    """Give the least of each summand: of a constant or a bounded function; else minus infinity."""
    for name in names:
        maker = graph.makers.get(values.origins.get(name, name))
        bounded = -np.inf if maker is None else _LEAST.get(maker.op_type, -np.inf)
        yield max(_constant_least(graph, values, name), bounded)


def _constant_least(graph: OnnxGraph, values: QuantizedValues, name: str) -> float:
    """Give the smallest value of a small constant; minus infinity for all else."""
    draft = values.by_dequantized.get(name) or values.by_integer.get(name)
    if draft is not None and draft.read_integers is not None:
        size = np.prod([dim for dim in draft.shape or () if isinstance(dim, int)])
        if size > _MOST_VALUES or not size:
            return -np.inf
        return float(dequantize(draft.read_integers(), draft.params).min())
    stored = graph.tensor(name)
    if stored is None or not 0 < stored.size <= _MOST_VALUES:
        return -np.inf
    if stored.dtype == ir.DataType.STRING:
        return -np.inf
    return float(np.asarray(graph.read(stored), np.float64).min())
