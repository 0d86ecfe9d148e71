"""This module states a quantized model with every quantizer switched off, as a float model.

Activations are not rounded, weights are what their integers stand for. A quantizer that stood for
a ReLU still clips. Integers that operators only move (Reshape, MaxPool, a table's rows) become the
floats that they stood for, so every other node stays as it is.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from quantscope.errors import BadModelError
from quantscope.model.network import Network, QuantTensor
from quantscope.model.onnx.operators import DEFAULT_DOMAINS, QDQ_OPS, QOPERATOR_OPS

Array = NDArray[Any]

RELU6_END = 6.0
# What is done to stored integers before they are dequantized.
_MOVES = ("Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_INTEGER_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


class _Units(NamedTuple):
    """The scale and zero-point, arrays of one number, of integers that are floats now."""

    scale: Array
    zero_point: Array


def switch_quantizers_off(
    stated: onnx.ModelProto, network: Network, *, name: str
) -> onnx.ModelProto:
    """Give a float copy of a model stated as QDQ; `network` says which quantizers are ReLUs.

    `name` is the model's, for the line that says which operator has no float form here.
    """
    switch = _Switch(stated, network)
    for node in stated.graph.node:
        switch.add(node)
    model = switch.finish()
    left = sorted({n.op_type for n in model.graph.node} & (QDQ_OPS | QOPERATOR_OPS))
    if left:
        raise BadModelError(
            f"The quantizers of {name} cannot all be switched off: {', '.join(left)} has no float "
            f"form here; give the float model that it was made from with --float FILE"
        )
    return model


def _clip_ends(tensors: tuple[QuantTensor, ...]) -> dict[str, float]:
    """Give, by its integers' names, how far up each quantizer that stands for a ReLU lets pass.

    That is without end, or 6 where its range ends there, as a ReLU6's does.
    """
    ends: dict[str, float] = {}
    for tensor in tensors:
        if tensor.role == "activation" and tensor.folded_relu:
            highest = float(tensor.params.representable_range[1].max())
            is_relu6 = abs(highest - RELU6_END) <= float(tensor.params.step.max()) / 2
            ends |= dict.fromkeys(tensor.integer_names, RELU6_END if is_relu6 else np.inf)
    return ends


class _Switch:
    """The float graph as it is made, node by node in running order.

    `instead` leads from values that are gone to those that stand for them, `units` from values
    that were integers and are floats now to their parameters.
    """

    def __init__(self, stated: onnx.ModelProto, network: Network) -> None:
        self.stated = stated
        self.arrays: dict[str, Array] = {}
        self.stored = {tensor.name: tensor for tensor in stated.graph.initializer}
        self.ends: Mapping[str, float] = _clip_ends(network.tensors)
        self.instead: dict[str, str] = {}
        self.units: dict[str, _Units] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.made: dict[str, onnx.TensorProto] = {}
        self.run_time: set[str] = set()
        """Integers whose scale would be found as the model runs: values themselves now."""
        self.names = {name for node in stated.graph.node for name in (*node.input, *node.output)}

    def add(self, node: onnx.NodeProto) -> None:
        """Add what a node is without quantizers."""
        values = [self._constant(name) for name in node.input if name]
        is_constant = bool(values) and all(value is not None for value in values)
        if is_constant and node.op_type in (*QDQ_OPS, *_MOVES):
            self._fold(node)
        elif node.op_type == "QuantizeLinear":
            self._quantizer(node)
        elif node.op_type == "DequantizeLinear":
            self._dequantizer(node)
        elif node.op_type == "DynamicQuantizeLinear":
            self._dynamic(node)
        elif node.op_type in _INTEGER_PRODUCTS:
            self._product(node)
        else:
            self._keep(node)

    def finish(self) -> onnx.ModelProto:
        """Give the model, its outputs under their names, without constants that nothing reads."""
        model = onnx.ModelProto()
        model.CopyFrom(self.stated)
        graph = model.graph
        del graph.node[:], graph.value_info[:], graph.initializer[:], model.metadata_props[:]
        del graph.quantization_annotation[:]
        made = {name for node in self.nodes for name in node.output}
        for output in graph.output:
            if output.name in self.units or output.name in self.instead:
                output.type.tensor_type.elem_type = self._float_type(output.name)
            if output.name not in made and output.name in self.instead:
                source = self._now(output.name)
                self.nodes.append(helper.make_node("Identity", [source], [output.name]))
        graph.node.extend(self.nodes)
        read = {name for node in _every_node(graph) for name in node.input}
        read |= {output.name for output in graph.output}
        constants = {**self.stored, **self.made}
        graph.initializer.extend(constants[name] for name in constants if name in read)
        return model

    def _float_type(self, name: str) -> int:
        units = self.units.get(name)
        kind = np.dtype(np.float32) if units is None else units.scale.dtype
        return int(helper.np_dtype_to_tensor_dtype(kind))

    def _constant(self, name: str) -> Array | None:
        if name not in self.arrays and name in self.stored:
            self.arrays[name] = numpy_helper.to_array(self.stored[name])
        return self.arrays.get(name)

    def _need(self, node: onnx.NodeProto, place: int) -> Array | None:
        """Read a constant that a node is given; None where it is left out or computed."""
        name = (*node.input, "", "", "")[place]
        return self._constant(name) if name else None

    def _now(self, name: str) -> str:
        while name in self.instead:
            name = self.instead[name]
        return name

    def _fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def _store(self, name: str, array: Array) -> str:
        self.arrays[name] = array
        self.made[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.made[name].dims[:] = array.shape
        return name

    def _fold(self, node: onnx.NodeProto) -> None:
        """Compute what depends on constants alone; what is dequantized is stored as floats."""
        if node.op_type == "DequantizeLinear":
            integers, scale = self._constant(node.input[0]), self._constant(node.input[1])
            assert integers is not None and scale is not None
            self._store(node.output[0], _dequantize(node, integers, scale, self._need(node, 2)))
            return
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.domain = ""
        feeds = {name: self._constant(name) for name in node.input if name}
        (found,) = ReferenceEvaluator(plain).run(None, feeds)
        self.arrays[node.output[0]] = np.asarray(found)
        if node.op_type != "QuantizeLinear":
            self._keep(node)  # a reader that takes the integers themselves finds them still

    def _quantizer(self, node: onnx.NodeProto) -> None:
        source, made = self._now(node.input[0]), node.output[0]
        scale, zero = self._need(node, 1), self._need(node, 2)
        if scale is None:
            self._keep(node)
            return
        self.units[made] = _Units(scale, np.zeros((), np.uint8) if zero is None else zero)
        end = self.ends.get(made)
        if end is None:
            self.instead[made] = source
            return
        name = self._fresh(f"{node.name or made}_clip")
        if end == np.inf:
            self.nodes.append(helper.make_node("Relu", [source], [made], name=name))
            return
        ends = [
            self._store(self._fresh(f"{name}_{which}"), np.asarray(value, scale.dtype))
            for which, value in (("low", 0.0), ("high", end))
        ]
        self.nodes.append(helper.make_node("Clip", [source, *ends], [made], name=name))

    def _dequantizer(self, node: onnx.NodeProto) -> None:
        source, scale = node.input[0], self._need(node, 1)
        if source in self.units:
            self.instead[node.output[0]] = source
            return
        if scale is None or scale.size != 1:
            self._keep(node)
            return
        # Integers that no quantizer made: an input of the model, or rows of a stored table.
        value = self._steps(source, self._need(node, 2), scale.dtype)
        factor = self._store(self._fresh(f"{value}_scale"), scale)
        self.nodes.append(helper.make_node("Mul", [value, factor], [node.output[0]]))

    def _steps(self, integers: str, zero: Array | None, kind: Any) -> str:
        """Add what gives, as floats, how many steps integers are from their zero-point."""
        value = self._fresh(f"{integers}_cast")
        to = int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
        self.nodes.append(helper.make_node("Cast", [self._now(integers)], [value], to=to))
        if zero is None or not zero.any():
            return value
        shift = self._store(self._fresh(f"{value}_zero"), zero.astype(kind))
        moved = self._fresh(f"{value}_moved")
        self.nodes.append(helper.make_node("Sub", [value, shift], [moved]))
        return moved

    def _dynamic(self, node: onnx.NodeProto) -> None:
        """Let the integers be the value itself, with scale 1 and zero-point 0."""
        made, scale, zero = node.output
        self._store(scale, np.ones((), np.float32))
        self._store(zero, np.zeros((), np.uint8))
        self.units[made] = _Units(np.ones((), np.float32), np.zeros((), np.uint8))
        self.instead[made] = self._now(node.input[0])
        self.run_time.add(made)

    def _product(self, node: onnx.NodeProto) -> None:
        """Multiply floats by what the stored integers are beyond their zero-point."""
        integers, zero = self._need(node, 1), self._need(node, 3)
        is_float = node.input[0] in self.units
        if is_float and node.input[1] in self.run_time:
            self._product_of(node, self._now(node.input[0]), self._now(node.input[1]))
            return
        if integers is None or (len(node.input) > 2 and self._need(node, 2) is None):
            self._keep(node)
            return
        value = (
            self._now(node.input[0])
            if is_float
            else self._steps(node.input[0], self._need(node, 2), np.float32)
        )
        shift = np.zeros((), np.int64) if zero is None else zero.astype(np.int64)
        if node.op_type == "ConvInteger" and shift.size > 1:
            shift = shift.reshape(-1, *[1] * (integers.ndim - 1))
        weight = integers.astype(np.int64) - shift.reshape(shift.shape if shift.size > 1 else ())
        name = self._store(self._fresh(f"{node.input[1]}_float"), weight.astype(np.float32))
        self._product_of(node, value, name)

    def _product_of(self, node: onnx.NodeProto, one: str, other: str) -> None:
        """Multiply two values as an integer product does its integers."""
        kind = _INTEGER_PRODUCTS[node.op_type]
        made = helper.make_node(kind, [one, other], node.output, name=node.name)
        made.attribute.extend(node.attribute)
        self.nodes.append(made)

    def _keep(self, node: onnx.NodeProto) -> None:
        """Keep a node, on floats where it had integers."""
        units = next((self.units[name] for name in node.input if name in self.units), None)
        if units is not None and node.op_type == "Clip":
            # Fewer bits than the type has are written as a Clip of its integers: the quantizer's.
            self.instead[node.output[0]] = node.input[0]
            self.units[node.output[0]] = units
            return
        kept = onnx.NodeProto()
        kept.CopyFrom(node)
        if units is not None and node.op_type == "Pad":
            self._pad_floats(kept, units)
        _rename_inputs(kept, self._now)
        self.nodes.append(kept)
        if units is not None:
            self.units |= dict.fromkeys((name for name in node.output if name), units)

    def _pad_floats(self, node: onnx.NodeProto, units: _Units) -> None:
        """Pad with what the integer stood for."""
        value = self._need(node, 2)
        number = 0 if value is None else int(value.reshape(-1)[0])
        real = (number - int(units.zero_point.reshape(-1)[0])) * units.scale.reshape(-1)[0]
        name = self._fresh(f"{node.output[0]}_value")
        inputs = [*node.input, "", "", ""][: max(3, len(node.input))]
        inputs[2] = self._store(name, np.asarray(real, units.scale.dtype))
        node.input[:] = inputs


def _dequantize(
    node: onnx.NodeProto, integers: Array, scale: Array, zero_point: Array | None
) -> Array:
    """Compute what DequantizeLinear does, per tensor, per channel or per block."""
    attributes = {a.name: a.i for a in node.attribute}
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    zero = np.zeros((), np.int8) if zero_point is None else zero_point

    def spread(array: Array) -> Array:
        if array.size == 1:
            return array.reshape(())
        if block:
            places = np.arange(integers.shape[axis]) // block
            return np.asarray(np.take(array, places, axis=axis))
        around = [1] * integers.ndim
        around[axis] = -1
        return array.reshape(around)

    exact = np.int64 if integers.dtype.kind in "iu" or "int" in integers.dtype.name else np.float32
    steps = integers.astype(exact) - spread(zero).astype(exact)
    return np.asarray(steps.astype(scale.dtype) * spread(scale), scale.dtype)


def _rename_inputs(node: onnx.NodeProto, now: Any) -> None:
    node.input[:] = [now(name) if name else "" for name in node.input]
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for each in inner.node:
                _rename_inputs(each, now)


def _every_node(graph: onnx.GraphProto) -> Any:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _every_node(inner)


def write_out_hard_swish(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a copy with each HardSwish as HardSigmoid and Mul, which is its definition.

    That is how onnxruntime's quantizer has it, and the gate in between has a quantizer there.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "HardSwish" or node.domain not in DEFAULT_DOMAINS:
            copy.graph.node.append(node)
            continue
        gate = f"{node.output[0]}/HardSigmoid"
        title = node.name or node.output[0]
        copy.graph.node.extend(
            [
                helper.make_node(
                    "HardSigmoid", node.input, [gate], name=f"{title}/HardSigmoid", alpha=1 / 6
                ),
                helper.make_node("Mul", [node.input[0], gate], node.output, name=f"{title}/Mul"),
            ]
        )
    return copy
