"""Run a whole quantized network in integers, NumPy only: the same numbers on any machine.

Layers that compute (`integer_layer`), functions and joins (`elementwise_layer`), and layers that
only move integers about. Anything else is passed as float, by onnx's reference evaluator, and
named in `IntegerNetwork.passed`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from quantscope.arithmetic import Saturation, dequantize, quantize, resolve_window, windows
from quantscope.errors import BadModelError
from quantscope.model import Layer, ModelSource, Network, QuantTensor, open_model
from quantscope.model.onnx import OnnxGraph
from quantscope.run.integers.compute import Arithmetic, compute, operands_of, saturation_of
from quantscope.run.integers.elementwise import ELEMENTWISE_OPS, Elementwise, elementwise_layer
from quantscope.run.integers.layer import (
    COMPUTING_OPS,
    Array,
    IntegerLayer,
    integer_layer,
    refusal,
    window_attributes,
)
from quantscope.run.integers.passed import Passed, pass_layer, real

CARRYING_OPS = frozenset(
    {
        *("Dropout", "Flatten", "Identity", "MaxPool", "Pad", "Relu"),
        *("Reshape", "Squeeze", "Transpose", "Unsqueeze"),
    }
)


class Observer(Protocol):
    """A function called after each computing layer: its operands, its output, what saturated."""

    def __call__(
        self,
        step: IntegerLayer,
        operands: Sequence[Array],
        output: Array,
        saturation: Saturation | None,
    ) -> None: ...


@dataclass(frozen=True, eq=False)
class Move:
    """A layer that computes nothing: what goes in comes out, elsewhere."""

    layer: Layer
    source: QuantTensor
    outputs: tuple[QuantTensor, ...]
    apply: Callable[[Array], Array]


Step = IntegerLayer | Elementwise | Move | Passed


@dataclass(frozen=True, eq=False)
class IntegerNetwork:
    """A network as steps of integers, in the order in which they run.

    `result` names the tensor that the model gives.
    """

    network: Network
    inputs: tuple[QuantTensor, ...]
    steps: tuple[Step, ...]
    result: str

    @property
    def passed(self) -> tuple[Passed, ...]:
        """The layers that are not computed in integers, each with its reason."""
        return tuple(step for step in self.steps if isinstance(step, Passed))

    def run(
        self,
        images: Array | Mapping[str, Array],
        arithmetic: Arithmetic = "exact",
        *,
        saturating: frozenset[str] | None = None,
        float_layers: frozenset[str] = frozenset(),
        observe: Observer | None = None,
    ) -> Array:
        """Give the first output's real values for images in the model's own layout and type.

        A model with several inputs takes them by name.

        With "avx2", `saturating` names the layers whose products saturate; None means all of
        uint8 x int8. `float_layers` are those that the runtime leaves to float: they round the
        exact sum, but of a bias that onnxruntime rounded when it optimized.
        """
        values = self._given(images)
        last_use = self._last_use()
        for number, step in enumerate(self.steps):
            if isinstance(step, Move):
                moved = step.apply(values[step.source.name])
                for output in step.outputs:
                    values[output.name] = _as(moved, step.source, output)
            elif isinstance(step, Passed):
                values |= step.run(values)
            elif isinstance(step, Elementwise):
                parts = [values[s.tensor.name] if s.data is None else s.data for s in step.sides]
                for output in step.outputs:
                    values[output.name] = step.apply(parts, output.params, arithmetic)
            else:
                is_float = arithmetic != "exact" and step.layer.name in float_layers
                self._compute(step, values, arithmetic, is_float, saturating, observe)
            # No activation is held after its last reader.
            for name in [name for name in values if last_use.get(name, -1) == number]:
                del values[name]
        result = values[self.result]
        tensor_of = {t.name: t for t in self.network.tensors}
        known = tensor_of.get(self.result)
        return result if known is None else dequantize(result, known.params)

    def _given(self, images: Array | Mapping[str, Array]) -> dict[str, Array]:
        names = [operand.name for operand in self.network.inputs]
        arrays = images if isinstance(images, Mapping) else {names[0]: images}
        values = {real(name): array for name, array in arrays.items()}
        for tensor in self.inputs:
            given = arrays[tensor.float_name or tensor.integer_names[0]]
            # A model may also take integers as they are, with no quantizer at its input.
            is_real = tensor.float_name is not None
            values[tensor.name] = quantize(given, tensor.params) if is_real else given
        return values

    def _compute(
        self,
        step: IntegerLayer,
        values: dict[str, Array],
        arithmetic: Arithmetic,
        is_float: bool,
        saturating: frozenset[str] | None,
        observe: Observer | None,
    ) -> None:
        operands = operands_of(step, values)
        saturation = None
        chosen: Arithmetic = "exact" if is_float else arithmetic
        if chosen == "avx2" and _saturates(step, operands, saturating):
            saturation = saturation_of(step, operands)
        for output in step.outputs or (None,):
            made = compute(
                step,
                operands,
                output,
                chosen,
                saturation=saturation,
                whole_bias=arithmetic != "exact",
            )
            values[output.name if output else step.layer.name] = made
            if observe is not None and output is step.output:
                observe(step, operands, made, saturation)

    def _last_use(self) -> dict[str, int]:
        """Number the step that reads each tensor last; the result is never dropped."""
        last: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            names = [step.source.name] if isinstance(step, Move) else step.activations
            last |= dict.fromkeys(names, number)
        last.pop(self.result, None)
        return last


def integer_network(model: ModelSource) -> IntegerNetwork:
    """Give an ONNX model as steps of integers; layers that are none are passed as float."""
    opened = open_model(model).as_onnx("the integer network")
    network, graph = opened.network, opened.graph
    if not network.is_quantized:
        raise BadModelError(
            f"{network.path.name} is a float model: it has no integers; give a quantized one"
        )
    steps: list[Step] = []
    merged: set[str] = set()
    read_real = _read_real(network)
    for layer in network.layers:
        if layer.name in merged:
            continue
        step = _step(network, graph, layer, read_real)
        steps.append(step)
        if isinstance(step, IntegerLayer) and step.relu is not None:
            # The step does this ReLU's work too.
            merged.add(step.relu.name)
    made = {t.name for step in steps for t in step.outputs}
    inputs = tuple(
        t
        for t in network.tensors
        if t.role == "activation" and t.producer is None and not t.has_data
    )
    known = made | {t.name for t in inputs} | {real(o.name) for o in network.inputs}
    known |= {
        real(o.name) for step in steps if isinstance(step, Passed) for o in step.layer.outputs
    }
    _check_sources(network, steps, known)
    return IntegerNetwork(network, inputs, tuple(steps), _result(network, steps))


def _step(network: Network, graph: OnnxGraph, layer: Layer, read_real: frozenset[str]) -> Step:
    try:
        step = _integer_step(network, graph, layer)
    except BadModelError as error:
        reason = str(error).removeprefix(f"{layer.name} of {network.path.name} ")
        return pass_layer(network, graph, layer, reason)
    end = step.relu if isinstance(step, IntegerLayer) and step.relu else layer
    if step.outputs and not read_real.isdisjoint(o.name for o in end.outputs):
        reason = "writes what is also read before it is quantized"
        return pass_layer(network, graph, layer, reason)
    return step


def _read_real(network: Network) -> frozenset[str]:
    """Name the values that a layer, or who runs the model, reads as real numbers."""
    reads = [operand for layer in network.layers for operand in layer.activations]
    return frozenset(o.name for o in (*reads, *network.outputs) if o.quant is None)


def _integer_step(
    network: Network, graph: OnnxGraph, layer: Layer
) -> IntegerLayer | Elementwise | Move:
    if layer.op_type in ELEMENTWISE_OPS:
        return elementwise_layer(network, graph, layer)
    if layer.op_type in COMPUTING_OPS:
        step = integer_layer(network, graph, layer)
        if not step.outputs and layer.outputs[0].name != network.outputs[0].name:
            raise refusal(network, layer, "writes real numbers that no quantizer follows")
        return step
    if layer.op_type not in CARRYING_OPS:
        raise refusal(network, layer, f"is a {layer.op_type}, which is not computed in integers")
    operand = next((o for o in layer.inputs if o.role == "activation"), None)
    source, target = operand.quant if operand else None, layer.outputs[0].quant
    if source is None or target is None:
        raise refusal(network, layer, "reads or writes real numbers, not integers")
    if not source.params.is_per_tensor or not source.params.is_integer:
        raise refusal(network, layer, f"reads {source.name}, which has several scales")
    same = [t for t in network.tensors if t is not target and target.float_name is not None]
    outputs = (target, *(t for t in same if t.float_name == target.float_name))
    return Move(layer, source, outputs, _mover(network, graph, layer, source))


def _mover(
    network: Network, graph: OnnxGraph, layer: Layer, source: QuantTensor
) -> Callable[[Array], Array]:
    facts = layer.attributes
    zero_point = int(source.params.zero_point)
    if layer.op_type in ("Dropout", "Identity"):
        return lambda x: x
    if layer.op_type == "Relu":
        return lambda x: np.maximum(x, x.dtype.type(zero_point))
    if layer.op_type == "Transpose":
        perm: Any = facts.get("perm")
        return lambda x: x.transpose(perm)
    if layer.op_type == "MaxPool":
        return _max_pool(layer, source)
    if layer.op_type == "Pad":
        return _pad(network, graph, layer, zero_point)
    # What is left only changes the shape. Shape inference knows it but for the first axis.
    shape = layer.outputs[0].shape
    if shape is None or not all(isinstance(dim, int) for dim in shape[1:]):
        raise refusal(network, layer, "writes a shape that is known only when it runs")
    sizes = [int(dim) for dim in shape[1:] if isinstance(dim, int)]
    return lambda x: x.reshape(-1, *sizes)


def _max_pool(layer: Layer, source: QuantTensor) -> Callable[[Array], Array]:
    kernel: Any = layer.attributes.get("kernel_shape", ())
    attributes = window_attributes(layer)
    taps = tuple(range(-len(kernel), 0))

    def apply(x: Array) -> Array:
        window = resolve_window(x.shape[2:], kernel, attributes)
        # Padding must never be the maximum.
        seen = windows(x, window, pad_value=source.params.qmin)
        return np.asarray(seen.max(axis=taps))

    return apply


def _pad(
    network: Network, graph: OnnxGraph, layer: Layer, zero_point: int
) -> Callable[[Array], Array]:
    settings = [graph.array(o.name) for o in layer.inputs if o.role == "setting"]
    pads = settings[0] if settings else None
    value = settings[1] if len(settings) > 1 else None
    is_zero = value is None or not np.any(value)
    mode = layer.attributes.get("mode", "constant")
    if pads is None or len(settings) > 2 or not is_zero or mode != "constant":
        raise refusal(network, layer, "pads with something else than zeros")
    widths = np.asarray(pads).reshape(2, -1).T.tolist()
    return lambda x: np.pad(x, widths, constant_values=zero_point)


def _as(integers: Array, source: QuantTensor, target: QuantTensor) -> Array:
    """Round integers again where a moving layer's output has other parameters than its input."""
    if source.params == target.params:
        return integers
    return quantize(dequantize(integers, source.params), target.params)


def _saturates(
    step: IntegerLayer, operands: Sequence[Array], saturating: frozenset[str] | None
) -> bool:
    if saturating is not None:
        return step.layer.name in saturating
    return bool(operands[0].dtype == np.uint8)


def _check_sources(network: Network, steps: Sequence[Step], known: set[str]) -> None:
    for step in steps:
        names = [step.source.name] if isinstance(step, Move) else step.activations
        for name in names:
            if name not in known:
                raise refusal(network, step.layer, f"reads {name}, which no integer layer makes")


def _result(network: Network, steps: Sequence[Step]) -> str:
    """Name the value that is the first output: a tensor, or a layer whose result stays real."""
    output = network.outputs[0]
    if output.quant is not None:
        return output.quant.name
    for step in steps:
        if output.name in [o.name for o in step.layer.outputs] and not step.outputs:
            return real(output.name) if isinstance(step, Passed) else step.layer.name
    source = output.source or "an input"
    raise BadModelError(
        f"The output {output.name} of {network.path.name} is made of real numbers by {source}, "
        f"not of integers"
    )
