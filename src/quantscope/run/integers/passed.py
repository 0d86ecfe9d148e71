"""A layer that is not computed in integers, computed as the float operator that the file states."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from quantscope.arithmetic import dequantize, quantize
from quantscope.model import Layer, Network, QuantTensor
from quantscope.model.onnx import (
    DEFAULT_DOMAINS,
    OnnxConstants,
    OnnxGraph,
    has_subgraph,
    input_names,
    output_names,
)
from quantscope.model.pairing import Constants
from quantscope.run.integers.layer import Array, refusal


def real(name: str) -> str:
    """Give the name under which a real value is kept; a tensor may have the file's name for it."""
    return f"{name} (real)"


@dataclass(frozen=True, eq=False)
class Passed:
    """Such a layer, and `reason`, the line that says why.

    What it reads is dequantized where it is quantized, and so is what it writes rounded.
    """

    layer: Layer
    reason: str
    node: ir.Node
    constants: Mapping[str, Array]
    opset: int
    tensors: Mapping[str, tuple[QuantTensor, ...]] = field(repr=False)
    """The quantizers of each of its outputs."""

    @property
    def outputs(self) -> tuple[QuantTensor, ...]:
        return tuple(tensor for found in self.tensors.values() for tensor in found)

    @property
    def activations(self) -> tuple[str, ...]:
        """The names of what must be given: quantized tensors, and real values of the file."""
        return tuple(o.quant.name if o.quant else real(o.name) for o in self.layer.activations)

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Give what it writes: integers by the tensors' names, real values by `real` ones."""
        feeds = dict(self.constants)
        for operand in self.layer.activations:
            given = values[operand.quant.name if operand.quant else real(operand.name)]
            feeds[operand.name] = (
                dequantize(given, operand.quant.params) if operand.quant else given
            )
        proto = ir.to_proto(self.node)
        made = ReferenceEvaluator(proto, opsets={"": self.opset}).run(None, feeds)
        found: dict[str, Array] = {}
        for name, value in zip(output_names(self.node), made, strict=False):
            found[real(name)] = np.asarray(value)
            quantizers = self.tensors.get(name, ())
            found |= {t.name: quantize(found[real(name)], t.params) for t in quantizers}
        return found


def pass_layer(network: Network, graph: OnnxGraph, layer: Layer, reason: str) -> Passed:
    """Let a layer be computed as float, or refuse it where it is no operator of onnx's own."""
    node = next((graph.makers.get(o.name) for o in layer.outputs), None)
    evaluable = node is not None and node.domain in DEFAULT_DOMAINS
    if node is None or not evaluable or layer.op_type != layer.file_op_type:
        raise refusal(network, layer, reason)
    # What its branches or its body take from outside is nowhere among its inputs.
    if has_subgraph(node):
        raise refusal(network, layer, "holds graphs of its own, which are not computed here")
    constants = Constants(network, OnnxConstants(graph))
    stored: dict[str, Array] = {}
    for operand in layer.inputs:
        if operand.role == "activation":
            continue
        array = graph.array(operand.name) if operand.role == "setting" else constants.array(operand)
        if array is None:
            raise refusal(network, layer, reason)
        stored[operand.name] = array
    known = set(stored) | {operand.name for operand in layer.activations}
    if any(name and name not in known for name in input_names(node)):
        raise refusal(network, layer, reason)
    return Passed(layer, reason, node, stored, network.opset or 0, _quantizers(network, layer))


def _quantizers(network: Network, layer: Layer) -> dict[str, tuple[QuantTensor, ...]]:
    found: dict[str, tuple[QuantTensor, ...]] = {}
    for operand in layer.outputs:
        first = operand.quant
        if first is not None:
            same = (t for t in network.tensors if t.float_name and t is not first)
            others = tuple(t for t in same if t.float_name == first.float_name)
            found[operand.name] = (first, *others)
    return found
