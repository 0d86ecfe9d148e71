"""This module finds values that can never be negative, where clipping negatives does nothing."""

import numpy as np
import onnx_ir as ir

from quantscope.model.assemble import Draft
from quantscope.model.onnx.graph import OnnxGraph, input_names, output_names
from quantscope.model.onnx.qoperator import layout_of
from quantscope.model.onnx.quant_params import QuantizedValues

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
_JOINS = frozenset({"Add", "Concat", "Mul"})


def relu_drafts(graph: OnnxGraph, values: QuantizedValues) -> set[Draft]:
    """Find the drafts that clip negatives which the computation before them can give."""
    clipped, computed = _never_negative(graph, values)
    return {
        draft
        for draft in values.drafts
        if draft.clips_negatives and draft.value not in (clipped if draft.float_name else computed)
    }


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
        if _gives_none(graph, node, found):
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


def _gives_none(graph: OnnxGraph, node: ir.Node, found: set[str]) -> bool:
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
    if op_type not in _KEEPS_SIGN:
        return False
    if layout is not None:
        read = [names[slot.value] for slot in layout.scaled if slot.value < len(names)]
    else:
        read = [name for name in names if name] if op_type in _JOINS else list(names[:1])
    return bool(read) and all(name in found for name in read)
