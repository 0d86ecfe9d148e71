"""This module pools integers by averaging: a sum, a count, one requantization."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.params import Array, QuantParams
from quantscope.arithmetic.requantize import (
    Int64Array,
    Precision,
    requantization_multiplier,
    requantize,
)
from quantscope.arithmetic.window import ConvAttributes, resolve_window, windows

_DEFAULT = ConvAttributes()


def pool_accumulator(
    x: ArrayLike,
    kernel: Sequence[int],
    *,
    x_zero_point: int = 0,
    count_include_pad: bool = False,
    attributes: ConvAttributes = _DEFAULT,
) -> tuple[Int64Array, Int64Array]:
    """Give the sums of x - zx [N, C, *output] and how many values each is divided by [*output].

    Padding counts as real zero. With `count_include_pad` every window counts its whole kernel, as
    onnxruntime's QLinearAveragePool does, also where `ceil_mode` lets it reach past the padding.
    """
    x = np.asarray(x)
    window = resolve_window(x.shape[2:], kernel, attributes)
    taps = tuple(range(-len(window.kernel), 0))
    centred = x.astype(np.int64) - int(x_zero_point)
    sums = windows(centred, window, pad_value=0).sum(axis=taps)
    if count_include_pad:
        counts = np.full(window.output, int(np.prod(window.kernel)), np.int64)
    else:
        inside = np.ones((1, 1, *x.shape[2:]), np.int64)
        counts = windows(inside, window, pad_value=0).sum(axis=taps)[0, 0]
    return sums, counts


def qlinear_average_pool(
    x: ArrayLike,
    x_params: QuantParams,
    y_params: QuantParams,
    kernel: Sequence[int],
    *,
    count_include_pad: bool = False,
    attributes: ConvAttributes = _DEFAULT,
    precision: Precision = "float32",
) -> Array:
    """Compute onnxruntime's QLinearAveragePool on integers; the runtime averages float32 values.

    The multiplier of each window is sx / (sy * count).
    """
    sums, counts = pool_accumulator(
        x,
        kernel,
        x_zero_point=int(x_params.zero_point),
        count_include_pad=count_include_pad,
        attributes=attributes,
    )
    return _average(sums, counts, x_params, y_params, precision)


def qlinear_global_average_pool(
    x: ArrayLike,
    x_params: QuantParams,
    y_params: QuantParams,
    *,
    precision: Precision = "float32",
) -> Array:
    """Compute onnxruntime's QLinearGlobalAveragePool of [N, C, *spatial]; spatial axes become 1."""
    x = np.asarray(x)
    spatial = tuple(range(2, x.ndim))
    centred = x.astype(np.int64) - int(x_params.zero_point)
    sums = centred.sum(axis=spatial, keepdims=True)
    counts = np.full((1,) * len(spatial), int(np.prod(x.shape[2:])), np.int64)
    return _average(sums, counts, x_params, y_params, precision)


def _average(
    sums: Int64Array,
    counts: NDArray[np.int64],
    x_params: QuantParams,
    y_params: QuantParams,
    precision: Precision,
) -> Array:
    # A window that lies in the padding alone has no value to count; its sum is 0 anyway.
    divisors = np.maximum(counts, 1).astype(np.float32)
    if precision == "exact":
        per_value = requantization_multiplier(
            x_params.scale, np.float32(1), y_params.scale, precision="exact"
        )
        multiplier = per_value / np.maximum(counts, 1).astype(object)
    else:
        working = np.float32 if precision == "float32" else np.float64
        divided = y_params.scale.astype(working) * divisors.astype(working)
        multiplier = x_params.scale.astype(working) / divided
    # Shaped like the output, so that it is not taken for one value per channel.
    multiplier = np.asarray(multiplier).reshape(1, 1, *counts.shape)
    return requantize(sums, multiplier, int(y_params.zero_point), y_params.dtype)
