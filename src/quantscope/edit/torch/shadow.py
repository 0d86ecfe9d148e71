"""This module states the wiring of a PT2E program in the form that plans are made on.

Which quantizers hang together, what may be switched off and what an edit must refuse do not depend
on the framework. So a program's graph is stated once as an ONNX graph that nobody runs: quantizers
as such, all other operators by their kind, values by their names in the file.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from quantscope.edit.wiring import QdqGraph
from quantscope.model.torch import ProgramGraph, ProgramNode, Pt2File, Ref, op_type_of, read_stored

Array = NDArray[Any]

_KINDS = {
    "quantize_per_tensor": "QuantizeLinear",
    "quantize_per_channel": "QuantizeLinear",
    "dequantize_per_tensor": "DequantizeLinear",
    "dequantize_per_channel": "DequantizeLinear",
}
# Padding adds zeros, which every quantizer has: the same numbers but for them.
_AS_IDENTITY = ("Pad",)


def kind_of(node: ProgramNode) -> str:
    """Give the operator in ONNX's words: `QuantizeLinear`, `DequantizeLinear`, `Conv`, ..."""
    namespace, operator, *_ = node.op.split(".")
    if namespace == "quantized_decomposed":
        return _KINDS.get(operator, operator)
    kind = op_type_of(operator.rstrip("_"), node.arguments)
    return "Identity" if kind in _AS_IDENTITY else kind


def parameter_names(node: ProgramNode) -> tuple[str, str]:
    """Give the names that a quantizer has for its scale and its zero-point."""
    plural = "s" if "per_channel" in node.op else ""
    return f"scale{plural}", f"zero_point{plural}"


def shadow_of(file: Pt2File, program: ProgramGraph) -> QdqGraph:
    """State a program as an ONNX graph; weights whose numbers do not matter are left empty."""
    initializers: dict[str, onnx.TensorProto] = {}
    nodes = []
    for node in program.nodes:
        kind = kind_of(node)
        reads = list(node.reads)
        if kind in _KINDS.values():
            source = node.arguments.get("input")
            given = [node.arguments.get(name) for name in parameter_names(node)]
            names = [f"{node.name}/{place}" for place in ("scale", "zero_point")]
            for at, value in enumerate(given):
                if isinstance(value, Ref):
                    names[at] = str(value)
                elif value is not None:
                    array = np.asarray(value, np.int64 if at else np.float32)
                    initializers[names[at]] = numpy_helper.from_array(array, names[at])
            reads = [str(source), *names]
        nodes.append(helper.make_node(kind, reads, list(node.outputs), name=node.name))
    looked_at = _looked_at(program)
    for name, fqn in program.constants.items():
        stored = file.stored.get(fqn)
        if stored is None:
            continue
        if name in looked_at or stored.dtype == "int32":
            initializers[name] = numpy_helper.from_array(read_stored(file, stored), name)
        else:
            initializers[name] = onnx.TensorProto(name=name, dims=stored.shape)
    inputs = [helper.make_empty_tensor_value_info(name) for name in program.inputs]
    outputs = [helper.make_empty_tensor_value_info(name) for name in program.outputs]
    graph = helper.make_graph(nodes, "shadow", inputs, outputs, list(initializers.values()))
    return QdqGraph(helper.make_model(graph))


def _looked_at(program: ProgramGraph) -> set[str]:
    """Name the constants whose numbers matter: parameters, and floats that the graph quantizes."""

    def found() -> Iterator[str]:
        for node in program.nodes:
            kind = kind_of(node)
            if kind in _KINDS.values():
                for name in parameter_names(node):
                    value = node.arguments.get(name)
                    if isinstance(value, Ref):
                        yield str(value)
            if kind == "QuantizeLinear":
                yield str(node.arguments.get("input"))

    return set(found())
