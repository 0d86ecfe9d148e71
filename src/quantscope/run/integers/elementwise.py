"""Describe a layer that makes each of its integers of one or a few: functions, products, joins.

A function of one integer is a table, a Mul one rounded product, a Concat rounds what has other
parameters than its result, a Softmax is of one axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantscope.arithmetic import (
    FUNCTIONS,
    QuantParams,
    function_table,
    look_up,
    qlinear_concat,
    qlinear_mul,
    qlinear_softmax,
)
from quantscope.model import Layer, Network, QuantTensor
from quantscope.model.onnx import OnnxGraph
from quantscope.run.integers.compute import Arithmetic
from quantscope.run.integers.layer import (
    Array,
    Side,
    operand_side,
    output_tensors,
    refusal,
)

ELEMENTWISE_OPS = frozenset({*FUNCTIONS, "Concat", "Mul", "Resize", "Softmax"})
# Attributes of the operators that are their functions' own.
_OF_FUNCTION = ("alpha", "beta", "approximate")
_NEAREST = ("asymmetric", "floor")

Apply = Callable[[Sequence[Array], QuantParams, Arithmetic], Array]


@dataclass(frozen=True, eq=False)
class Elementwise:
    """A layer of that kind: `apply` gives the integers of its result for those of its sides."""

    layer: Layer
    sides: tuple[Side, ...]
    outputs: tuple[QuantTensor, ...]
    apply: Apply

    @property
    def activations(self) -> tuple[str, ...]:
        """The names of the tensors whose integers must be given."""
        return tuple(side.tensor.name for side in self.sides if side.data is None)


def elementwise_layer(network: Network, graph: OnnxGraph, layer: Layer) -> Elementwise:
    """Describe a layer, or refuse it with one line: what keeps it from being integers."""
    outputs = output_tensors(network, layer)
    operands = [operand for operand in layer.inputs if operand.role != "setting"]
    sides = tuple(operand_side(network, graph, layer, operand) for operand in operands)
    if not outputs:
        raise refusal(network, layer, "writes real numbers that no quantizer follows")
    named = [(side.tensor.name, side.params) for side in sides]
    for name, params in (*named, *((tensor.name, tensor.params) for tensor in outputs)):
        if params.scale.size > 1 or not params.is_integer:
            raise refusal(network, layer, f"has {name}, which has several scales")
    return Elementwise(layer, sides, outputs, _apply(network, graph, layer, sides))


def _apply(network: Network, graph: OnnxGraph, layer: Layer, sides: tuple[Side, ...]) -> Apply:
    params = [side.params for side in sides]
    if layer.op_type == "Concat":
        axis: Any = layer.attributes.get("axis", 0)
        return lambda parts, y, _: qlinear_concat(parts, params, y, axis=axis)
    if layer.op_type == "Mul" and len(sides) == 2:
        return lambda parts, y, how: qlinear_mul(
            *(parts[0], params[0], parts[1], params[1], y),
            precision="exact" if how == "exact" else "float32",
        )
    if layer.op_type == "Softmax":
        along: Any = layer.attributes.get("axis", -1)
        if network.opset is not None and network.opset < 13 and along != -1:
            raise refusal(network, layer, "is a Softmax of several axes, as old opsets have it")
        return lambda parts, y, _: qlinear_softmax(parts[0], params[0], y, axis=along)
    if layer.op_type == "Resize":
        return _nearest(network, graph, layer, params[0])
    if layer.op_type not in FUNCTIONS:
        raise refusal(network, layer, f"is a {layer.op_type} of a number that is not quantized")
    facts = {k: v for k, v in layer.attributes.items() if k in _OF_FUNCTION}

    return lambda parts, y, _: look_up(
        parts[0], function_table(layer.op_type, params[0], y, **facts), params[0]
    )


def _nearest(network: Network, graph: OnnxGraph, layer: Layer, own: QuantParams) -> Apply:
    """Repeat each integer a whole number of times along each axis."""
    facts = layer.attributes
    how = facts.get("coordinate_transformation_mode"), facts.get("nearest_mode")
    arrays = [graph.array(o.name) for o in layer.inputs if o.role == "setting"]
    scales = next((a for a in arrays if a is not None and a.dtype.kind == "f" and a.size), None)
    is_whole = scales is not None and bool((scales == np.rint(scales)).all())
    if facts.get("mode", "nearest") != "nearest" or how != _NEAREST or not is_whole:
        raise refusal(network, layer, "resizes by more than repeating what it reads")
    assert scales is not None
    repeats = [int(scale) for scale in scales]

    def apply(parts: Sequence[Array], y: QuantParams, how: Arithmetic) -> Array:
        del how
        made = parts[0]
        for axis, count in enumerate(repeats):
            made = made.repeat(count, axis=axis)
        return qlinear_concat([made], [own], y, axis=0)

    return apply
