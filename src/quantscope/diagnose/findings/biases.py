"""The biases that layers add to integer sums, with what their steps must be."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantscope.model import Layer, Network, QuantTensor

SUMMING_OPS = frozenset({"Conv", "ConvTranspose", "Gemm"})


@dataclass(frozen=True)
class AddedBias:
    """A quantized bias, and the two quantized tensors whose products it is added to."""

    layer: Layer
    x: QuantTensor
    weight: QuantTensor
    bias: QuantTensor

    @property
    def scale(self) -> NDArray[np.float64]:
        """The bias's scale, one for each channel."""
        return self._by_channel(self.bias.params.scale)

    @property
    def sum_scale(self) -> NDArray[np.float64]:
        """The step of the sums, input scale times weight scale, one for each channel."""
        return self._by_channel(np.float64(self.x.params.scale) * self.weight.params.scale)

    def _by_channel(self, scale: object) -> NDArray[np.float64]:
        channels = self.bias.integers().size
        return np.broadcast_to(np.asarray(scale, np.float64).reshape(-1), channels)


def added_biases(network: Network) -> Iterator[AddedBias]:
    """Give each bias whose input has one scale and whose weights have one, or one a channel."""
    for layer in network.layers:
        found = layer.bias, layer.weight
        x = layer.inputs[0].quant if layer.inputs else None
        if layer.op_type not in SUMMING_OPS or x is None or not x.params.is_per_tensor:
            continue
        if {"alpha", "beta"} & layer.telling_attributes.keys():
            continue
        bias, weight = found
        if bias is None or weight is None or not bias.has_data or not bias.params.is_integer:
            continue
        channels = bias.integers().size
        if all(np.size(each.params.scale) in (1, channels) for each in (bias, weight)):
            yield AddedBias(layer, x, weight, bias)
