"""Describe one layer as integers: which meet, with which zero-points, scales and bias.

Convolutions, matrix products, sums and averages. A layer that is not all integers is refused with
the one thing that keeps it from being so.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import ConvAttributes, QuantParams
from quantscope.errors import BadModelError
from quantscope.model import Layer, Network, Operand, QuantTensor, weight_channel_axis
from quantscope.model.onnx import OnnxGraph, input_names

Array = NDArray[Any]
Kind = Literal["Conv", "Gemm", "MatMul", "Add", "AveragePool"]

_KINDS: dict[str, Kind] = {
    "Conv": "Conv",
    "Gemm": "Gemm",
    "MatMul": "MatMul",
    "Add": "Add",
    "AveragePool": "AveragePool",
    "GlobalAveragePool": "AveragePool",
    "ReduceMean": "AveragePool",
}
COMPUTING_OPS = frozenset(_KINDS)
_DEFAULT = ConvAttributes()
MULTIPLYING: tuple[Kind, ...] = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True, eq=False)
class Side:
    """An integer operand; `data` is None where it is computed when the model runs.

    `params` are the tensor's own, their axis that of `data` (a stored matrix may be transposed).
    """

    tensor: QuantTensor
    params: QuantParams
    data: Array | None

    @property
    def zero_point(self) -> int:
        return int(self.params.zero_point.reshape(-1)[0])


@dataclass(frozen=True, eq=False)
class IntegerLayer:
    """A layer whose operands are integers.

    `bias` counts in steps of sx * sw; `real_bias` is one that the file states in another way, as
    real numbers. `outputs` are the quantizers of its result, none where it stays real; `relu` is a
    layer between the result and its quantizer. `kernel_shape` is a pool's window, empty for the
    whole image.
    """

    layer: Layer
    kind: Kind
    sides: tuple[Side, ...]
    outputs: tuple[QuantTensor, ...]
    relu: Layer | None = None
    bias: NDArray[np.int64] | None = None
    real_bias: NDArray[np.float64] | None = None
    alpha: float = 1.0
    attributes: ConvAttributes = _DEFAULT
    kernel_shape: tuple[int, ...] = ()
    count_include_pad: bool = False
    keeps_axes: bool = True

    @property
    def output(self) -> QuantTensor | None:
        return self.outputs[0] if self.outputs else None

    @property
    def activations(self) -> tuple[str, ...]:
        """The names of the tensors whose integers must be given."""
        return tuple(side.tensor.name for side in self.sides if side.data is None)


def integer_layer(network: Network, graph: OnnxGraph, layer: Layer) -> IntegerLayer:
    """Describe a layer, or refuse it with one line: what keeps it from being integers."""
    kind = _KINDS.get(layer.op_type)
    if kind is None or not layer.outputs:
        raise refusal(network, layer, f"is a {layer.op_type}, which is not computed in integers")
    outputs, relu = _outputs(network, layer)
    operands = [operand for operand in layer.inputs if operand.role != "setting"]
    count = 1 if kind == "AveragePool" else 2
    sides = tuple(operand_side(network, graph, layer, operand) for operand in operands[:count])
    if len(sides) < count:
        raise refusal(network, layer, "reads a number that is not quantized")
    for side in sides if kind == "Add" else sides[:1]:
        if side.params.scale.size > 1:
            raise refusal(network, layer, f"reads {side.tensor.name}, which has several scales")
    for tensor in outputs:
        if tensor.params.scale.size > 1 or not tensor.params.is_integer:
            raise refusal(network, layer, f"writes {tensor.name}, which has several scales")
    made = IntegerLayer(layer, kind, sides, outputs, relu)
    if kind == "AveragePool":
        return _pool(network, graph, made)
    if kind == "Add":
        return made
    return _product(network, graph, made, operands[2] if len(operands) > 2 else None)


def accumulator_scale(spec: IntegerLayer, *, wide: bool = False) -> Array:
    """Give what one step of the accumulator stands for: alpha * sx * sw, or one per channel.

    It is computed in float32, as runtimes do, or `wide` in float64.
    """
    working: Any = np.float64 if wide else np.float32
    scale = spec.sides[0].params.scale.astype(working)
    if spec.alpha != 1.0:
        scale = working(np.float32(spec.alpha)) * scale
    if spec.kind in MULTIPLYING:
        scale = scale * spec.sides[1].params.scale.reshape(-1).astype(working)
    return np.asarray(scale if np.size(scale) > 1 else np.reshape(scale, ()))


def window_attributes(layer: Layer) -> ConvAttributes:
    """Read strides, pads and the like of a convolution or a pool."""
    facts = layer.attributes

    def numbers(name: str) -> tuple[int, ...]:
        found = facts.get(name, ())
        return tuple(int(n) for n in found) if isinstance(found, tuple) else ()

    auto_pad: Any = facts.get("auto_pad", "NOTSET")
    group, ceil_mode = facts.get("group", 1), facts.get("ceil_mode", 0)
    return ConvAttributes(
        strides=numbers("strides"),
        pads=numbers("pads") if auto_pad == "NOTSET" else (),
        dilations=numbers("dilations"),
        group=group if isinstance(group, int) else 1,
        auto_pad=auto_pad,
        ceil_mode=bool(ceil_mode),
    )


def refusal(network: Network, layer: Layer, reason: str) -> BadModelError:
    return BadModelError(f"{layer.name} of {network.path.name} {reason}")


def _outputs(network: Network, layer: Layer) -> tuple[tuple[QuantTensor, ...], Layer | None]:
    """Find the quantizers behind a layer, and the ReLU between if there is one."""
    relu = None
    operand = layer.outputs[0]
    if operand.quant is None:
        readers = [x for x in network.layers if any(o.name == operand.name for o in x.inputs)]
        is_output = any(o.name == operand.name for o in network.outputs)
        if len(readers) == 1 and readers[0].op_type == "Relu" and not is_output:
            relu = readers[0]
            operand = relu.outputs[0]
    if operand.quant is None:
        return (), None
    first = operand.quant
    # The same value may be quantized several times, for different readers.
    others = (t for t in network.tensors if t is not first and first.float_name is not None)
    return (first, *(t for t in others if t.float_name == first.float_name)), relu


def output_tensors(network: Network, layer: Layer) -> tuple[QuantTensor, ...]:
    """Find the quantizers of what a layer writes: several, where its readers have their own."""
    first = layer.outputs[0].quant if layer.outputs else None
    if first is None:
        return ()
    others = (t for t in network.tensors if t is not first and first.float_name is not None)
    return (first, *(t for t in others if t.float_name == first.float_name))


def operand_side(network: Network, graph: OnnxGraph, layer: Layer, operand: Operand) -> Side:
    """Describe one operand; a stored one that a Transpose turns is turned here."""
    tensor = operand.quant
    if operand.run_time_dtype is not None:
        raise refusal(
            network, layer, f"reads {operand.name}, whose scale is found when the model runs"
        )
    if tensor is None:
        raise refusal(network, layer, f"reads {operand.name}, which is not quantized")
    if not tensor.params.is_integer or tensor.params.block_size:
        kind = "in blocks" if tensor.params.block_size else f"to {tensor.params.dtype}"
        raise refusal(network, layer, f"reads {tensor.name}, which is quantized {kind}")
    if not tensor.has_data:
        return Side(tensor, tensor.params, None)
    side = Side(tensor, tensor.params, tensor.integers())
    if operand.name not in (*tensor.integer_names, *tensor.dequantized_names):
        node = graph.makers.get(operand.name)
        source = input_names(node)[0] if node is not None else ""
        stored = source in (*tensor.integer_names, *tensor.dequantized_names)
        if node is None or node.op_type != "Transpose" or not stored:
            raise refusal(network, layer, f"reads {tensor.name} in another layout")
        perm = node.attributes.get("perm")
        side = _transposed(side, None if perm is None else tuple(perm.value))
    return side


def _transposed(side: Side, order: tuple[int, ...] | None = None) -> Side:
    if side.data is None:
        return side
    order = order or tuple(range(side.data.ndim))[::-1]
    params = side.params
    if params.axis is not None:
        axis = order.index(params.axis % side.data.ndim)
        params = params.changed(axis=axis)
    return Side(side.tensor, params, side.data.transpose(order))


def _product(
    network: Network, graph: OnnxGraph, spec: IntegerLayer, bias: Operand | None
) -> IntegerLayer:
    layer, (x, w) = spec.layer, spec.sides
    facts = layer.attributes
    if spec.kind == "Conv" and w.data is None:
        raise refusal(network, layer, f"has computed weights, {w.tensor.name}")
    if spec.kind == "Gemm":
        if facts.get("transA") or (facts.get("transB") and w.data is None):
            raise refusal(network, layer, "transposes what it reads")
        if facts.get("transB"):
            w = _transposed(w)
    if w.params.scale.size > 1:
        rank = 0 if w.data is None else w.data.ndim
        axis = w.params.axis
        if not rank or axis is None or axis % rank != weight_channel_axis(spec.kind, rank):
            raise refusal(network, layer, f"has scales along the summed axis of {w.tensor.name}")
    attributes = window_attributes(layer) if spec.kind == "Conv" else _DEFAULT
    alpha, beta = (facts.get(name, 1.0) for name in ("alpha", "beta"))
    made = replace(
        spec,
        sides=(x, w),
        attributes=attributes,
        alpha=float(alpha) if isinstance(alpha, int | float) else 1.0,
    )
    if bias is None:
        return made
    if beta != 1.0:
        raise refusal(network, layer, f"multiplies its bias by {beta}")
    return _biased(network, graph, made, bias)


def _biased(network: Network, graph: OnnxGraph, spec: IntegerLayer, bias: Operand) -> IntegerLayer:
    """Add the bias: as integers only where its steps are those of the accumulator."""
    scale = accumulator_scale(spec)
    channels = _channels(spec)
    stored = bias.quant
    if stored is not None and stored.has_data:
        integers = stored.integers().astype(np.int64).reshape(-1)
        real = stored.values().astype(np.float64).reshape(-1)
        # The stored scale is a product that was rounded elsewhere: its last bits may differ.
        exact = np.allclose(stored.params.scale.reshape(-1), scale, rtol=1e-5, atol=0)
        is_whole = exact and stored.params.dtype == "int32"
    else:
        array = graph.array(bias.name)
        if array is None:
            raise refusal(network, spec.layer, f"has a computed bias, {bias.name}")
        integers, real, is_whole = None, array.astype(np.float64).reshape(-1), False
    if real.size not in (1, channels):
        raise refusal(network, spec.layer, f"has {real.size} bias values, {channels} channels")
    if is_whole:
        return replace(spec, bias=integers)
    return replace(spec, real_bias=real)


def _channels(spec: IntegerLayer) -> int:
    w = spec.sides[1]
    if w.data is None:
        return 1
    return int(w.data.shape[0] if spec.kind == "Conv" else w.data.shape[-1])


def _pool(network: Network, graph: OnnxGraph, spec: IntegerLayer) -> IntegerLayer:
    layer = spec.layer
    if not spec.outputs:
        raise refusal(network, layer, "writes real numbers that no quantizer follows")
    if layer.op_type == "AveragePool":
        kernel: Any = layer.attributes.get("kernel_shape", ())
        padded = bool(layer.attributes.get("count_include_pad", 0))
        return replace(
            spec,
            attributes=window_attributes(layer),
            kernel_shape=tuple(kernel),
            count_include_pad=padded,
        )
    if layer.op_type == "ReduceMean":
        shape = spec.sides[0].tensor.shape
        axes = _axes(graph, layer)
        if (
            shape is None
            or axes is None
            or {a % len(shape) for a in axes} != {*range(2, len(shape))}
        ):
            raise refusal(network, layer, "averages other axes than an image's")
        return replace(spec, keeps_axes=bool(layer.attributes.get("keepdims", 1)))
    return spec


def _axes(graph: OnnxGraph, layer: Layer) -> list[int] | None:
    """Read a ReduceMean's axes: an attribute in old opsets, an input in new ones."""
    stated: Any = layer.attributes.get("axes")
    if stated is None:
        setting = next((o for o in layer.inputs if o.role == "setting"), None)
        array = graph.array(setting.name) if setting else None
        stated = None if array is None else array.reshape(-1).tolist()
    return None if stated is None else [int(a) for a in stated]
