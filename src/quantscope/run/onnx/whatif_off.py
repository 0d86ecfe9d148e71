"""Probe activations that an edit left unquantized: signal and error of what readers get instead."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from quantscope.model import Network, QuantTensor
from quantscope.model.pairing import Pairing, TensorPair
from quantscope.run.compare import ONLY_SQNR
from quantscope.run.onnx.compare import FLOAT, QUANTIZED, ComparisonGraph, GraphProbe


def add_switched_off(
    compared: ComparisonGraph,
    base: onnx.ModelProto,
    edited: onnx.ModelProto,
    network: Network,
    pairing: Pairing,
) -> tuple[ComparisonGraph, frozenset[str]]:
    """Add a probe for each such activation to a copy of the comparison; name them too."""
    pairs = {pair.name: pair for pair in pairing.pairs if pair.role == "activation"}
    made = {name for node in edited.graph.node for name in node.output}
    tensors = [network.tensor(name) for name in pairs]
    off = {
        tensor.name: (tensor, value)
        for tensor in tensors
        if made.isdisjoint(tensor.integer_names)
        and (value := _instead(tensor, base, made)) is not None
    }
    if not off:
        return compared, frozenset()
    model = onnx.ModelProto()
    model.CopyFrom(compared.model)
    _constant(model, "off/first", [0])
    _constant(model, "off/row", [1, -1])
    _constant(model, "off/axis", [2])
    probes = []
    for name, (tensor, value) in off.items():
        pair = pairs[name]
        output = _probe(model, pair, QUANTIZED + value)
        probes.append(
            GraphProbe(
                pair=pair,
                tensor=tensor,
                sum_names=("signal", "error"),
                leaves=(),
                no_sources=ONLY_SQNR,
                output=output,
            )
        )
    unseen = {name: why for name, why in compared.unseen.items() if name not in off}
    added = replace(compared, model=model, probes=(*compared.probes, *probes), unseen=unseen)
    return added, frozenset(off)


def _instead(tensor: QuantTensor, base: onnx.ModelProto, made: Collection[str]) -> str | None:
    """Name what readers get: the dequantized value, if a ReLU makes it now, or the quantized."""
    integers = set(tensor.integer_names)
    nodes = base.graph.node
    readers = (n for n in nodes if n.op_type == "DequantizeLinear" and n.input[0] in integers)
    quantizers = (n for n in nodes if not integers.isdisjoint(n.output))
    candidates = [*(n.output[0] for n in readers), *(n.input[0] for n in quantizers)]
    return next((name for name in candidates if name in made), None)


def _probe(model: onnx.ModelProto, pair: TensorPair, value: str) -> str:
    """Add an output [images, (signal, error), 1] beside a value."""
    nodes, name, float_value = model.graph.node, pair.name, FLOAT + pair.float_name

    def add(op_type: str, inputs: list[str], part: str, **attributes: Any) -> str:
        made = f"off/{name}/{part}"
        nodes.append(helper.make_node(op_type, inputs, [made], name=made, **attributes))
        return made

    # The quantized value may merge its first axes; the float one's rows are those of both.
    sizes = add("Shape", [float_value], "sizes")
    rows = add("Gather", [sizes, "off/first"], "count")
    layout = add("Concat", [rows, "off/row"], "layout", axis=0)

    def laid_out(given: str, part: str) -> str:
        cast = add("Cast", [given], f"{part}/cast", to=onnx.TensorProto.FLOAT)
        return add("Reshape", [cast, layout], part)

    if pair.order:
        float_value = add("Transpose", [float_value], "turned", perm=list(pair.order))
    f, q = laid_out(float_value, "float"), laid_out(value, "now")
    squares = {"signal": (f, f), "error": (add("Sub", [q, f], "difference"),) * 2}
    sums = [
        add("ReduceSum", [add("Mul", list(both), f"{sum_}/squared"), "off/axis"], sum_, keepdims=1)
        for sum_, both in squares.items()
    ]
    output = add("Concat", sums, "rows", axis=1)
    made = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    model.graph.output.append(made)
    return output


def _constant(model: onnx.ModelProto, name: str, values: list[int]) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
