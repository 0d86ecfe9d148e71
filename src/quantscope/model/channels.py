"""This module finds the axis along which an activation has its channels."""

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


def channel_axis(network: Network, tensor: QuantTensor) -> int | None:
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
