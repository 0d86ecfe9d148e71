"""This module finds along which axis a tensor has its channels.

An activation's are told by its shape and by what makes and reads it, a weight's by the operator
that reads it.
"""

from quantscope.model.network import Layer, Network, QuantTensor

_ALONG_AXIS_1 = frozenset(
    {
        *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool"),
        *("GlobalMaxPool", "InstanceNormalization", "MaxPool"),
    }
)
_KEEPS_AXES = frozenset(
    {
        *("Abs", "Add", "Cast", "Celu", "Clip", "Concat", "Div", "Dropout", "Elu", "Erf", "Exp"),
        *("Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Mul", "Neg"),
        *("PRelu", "Pad", "Pow", "Relu", "Resize", "Round", "Selu", "Sigmoid", "Slice"),
        *("Softplus", "Softsign", "Sqrt", "Sub", "Tanh", "ThresholdedRelu"),
    }
)

_CONVOLUTIONS = {"Conv": 0, "ConvTranspose": 1}
_MATRIX_PRODUCTS = frozenset({"Gemm", "MatMul", "FusedMatMul"})


def activation_channel_axis(network: Network, tensor: QuantTensor) -> int | None:
    """Find the axis of the channels of an activation.

    It is None where there is none: fewer than two axes, an unknown shape, or a named batch there.
    """
    shape, axis = tensor.shape, tensor.params.axis
    if shape is None or len(shape) < 2:
        return None
    if axis is None:
        # Three axes may be [N, C, length] of a convolution or [N, tokens, C] of a transformer.
        axis = 1 if len(shape) != 3 or _is_along_1(network, tensor) else 2
    batch = next((i.shape[0] for i in network.inputs if i.shape), None)
    return None if isinstance(batch, str) and shape[axis] == batch else axis


def _is_along_1(network: Network, tensor: QuantTensor) -> bool:
    """Tell whether what makes its channels, or reads them, has them there; else they come last."""
    layers = (_maker(network, tensor.producer), *map(network.layer, tensor.consumers))
    return any(layer is not None and layer.op_type in _ALONG_AXIS_1 for layer in layers)


def _maker(network: Network, name: str | None) -> Layer | None:
    """Find, going back from there, the first layer whose axes need not be those of its input."""
    while name is not None:
        layer = network.layer(name)
        if layer.op_type not in _KEEPS_AXES:
            return layer
        name = next((operand.source for operand in layer.activations if operand.source), None)
    return None


def weight_channel_axis(op_type: str, rank: int, *, is_transposed: bool = False) -> int | None:
    """Give the axis of a weight that counts its layer's output channels.

    `is_transposed`: a matrix product reads it so. None for an operator of another kind, whose
    constant need not have such an axis: a table, say, or a factor.
    """
    if op_type in _CONVOLUTIONS:
        return _CONVOLUTIONS[op_type]
    if op_type in _MATRIX_PRODUCTS:
        return 0 if is_transposed else rank - 1
    return None


def reads_transposed(layer: Layer) -> bool:
    """Say whether the layer is a matrix product that reads its weight transposed."""
    return layer.op_type in _MATRIX_PRODUCTS and bool(layer.attributes.get("transB", 0))


def compared_channel_axis(layer: Layer, rank: int) -> int:
    """Give the axis of the channels by which a weight or bias is compared, as its layer reads it.

    Where the operator has no output channels it is the last axis: the columns of a table. Unlike
    `edited_channel_axis` this does not look at the scales, since the two constants that are
    compared must be cut alike however one of them was quantized.
    """
    if rank < 2:
        return 0
    axis = weight_channel_axis(layer.op_type, rank, is_transposed=reads_transposed(layer))
    return rank - 1 if axis is None else axis


def edited_channel_axis(network: Network, tensor: QuantTensor) -> int:
    """Give the axis of the channels that an edit of a weight or bias counts, as it is stored.

    Where the operator that reads it has no output channels it is that of the scales, so that a
    channel is what has a scale of its own, or the first: the rows of a table.
    """
    if tensor.role == "bias":
        return 0
    reader = next((layer for layer in network.layers if layer.name in tensor.consumers), None)
    axis: int | None = None
    if reader is not None:
        rank = len(tensor.shape or ())
        axis = weight_channel_axis(reader.op_type, rank, is_transposed=reads_transposed(reader))
    return next((known for known in (axis, tensor.params.axis) if known is not None), 0)
