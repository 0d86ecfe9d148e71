"""This module folds what follows a layer of the float network into its weight and bias."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantscope.model.channels import weight_channel_axis
from quantscope.model.network import Layer, QuantTensor
from quantscope.model.pairing.constants import Constants, as_plus_or_times
from quantscope.model.pairing.kinds import (
    ADD_CONSTANT,
    LINEAR,
    NORM,
    TIMES_CONSTANT,
)

Array = NDArray[Any]


def folded_constant(
    constants: Constants, layer: Layer, kind: str, role: str, after: Sequence[tuple[Layer, str]]
) -> Array | None:
    """Give the weight or bias of a convolution or matrix product with the layers `after` folded in.

    It is float32 and a new array; None where a constant is not at hand, or is not one number a
    channel.
    """
    weight = next((o for o in layer.inputs if o.role == "weight"), None)
    array = constants.array(weight) if weight is not None else None
    if array is None:
        return None
    axis = weight_channel_axis(
        # By the kind: the float network may have the layer in a fused form.
        "Gemm" if kind == LINEAR else kind,
        array.ndim,
        is_transposed=bool(layer.attributes.get("transB", 0)),
    )
    assert axis is not None, f"{kind} is a convolution or a matrix product"
    channels = array.shape[axis]
    bias = next((o for o in layer.inputs if o.role == "bias"), None)
    start = constants.array(bias) if bias is not None else np.zeros(1)
    if start is None:
        return None
    factor, shift = np.ones(channels), np.broadcast_to(np.ravel(start), channels).astype(float)
    for following, how in after:
        step = _affine(constants, following, how, channels)
        if step is None:
            return None
        factor, shift = factor * step[0], shift * step[0] + step[1]
    if role == "bias":
        return shift.astype(np.float32)
    spread = factor.reshape([-1 if place == axis else 1 for place in range(array.ndim)])
    return np.asarray(array * spread, np.float32)


def _affine(
    constants: Constants, layer: Layer, kind: str, channels: int
) -> tuple[Array, Array] | None:
    """Give what a layer does to each channel: times the first, plus the second; None if unknown."""
    found = [constants.array(operand) for operand in constants.fixed(layer)]
    arrays = [np.ravel(array).astype(np.float64) for array in found if array is not None]
    if len(arrays) < len(found) or any(array.size not in (1, channels) for array in arrays):
        return None
    if kind == NORM and len(arrays) == 4:
        scale, bias, mean, variance = arrays
        epsilon = layer.attributes.get("epsilon", 1e-5)
        factor = scale / np.sqrt(variance + float(str(epsilon)))
        return factor, bias - mean * factor
    if kind == ADD_CONSTANT and len(arrays) == 1:
        return np.ones(1), as_plus_or_times(constants, layer, arrays[0])
    if kind == TIMES_CONSTANT and len(arrays) == 1:
        return as_plus_or_times(constants, layer, arrays[0]), np.zeros(1)
    return None


def as_stored(array: Array, shape: tuple[int, ...], tensor: QuantTensor) -> Array:
    """Lay float values out as in the quantized file, where a matrix may lie transposed.

    A square matrix is turned if that is nearer to the stored integers.
    """
    if array.ndim == 2 and array.T.shape == shape:
        if array.shape != shape:
            return array.T
        if not tensor.has_data:
            return array
        like = tensor.values()
        straight, turned = (float(np.linalg.norm(x - like)) for x in (array, array.T))
        return array if straight <= turned else array.T
    return array.reshape(shape) if array.size == prod(shape) else array
