"""This module counts the bits that an accumulator needs, in the worst case and as measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.requantize import Int64Array
from quantscope.errors import BadConfigError


@dataclass(frozen=True)
class AccumulatorBound:
    """The smallest and largest accumulator that any input could give, and the bits they need.

    One value per output channel, bias included. `lowest` and `highest` are reached by real inputs,
    so the bits are not an estimate; partial sums in any order stay within `partial_bits`.
    """

    lowest: Int64Array
    highest: Int64Array
    bits: NDArray[np.int64]
    partial_bits: NDArray[np.int64]

    @property
    def int32_headroom_bits(self) -> NDArray[np.int64]:
        """The bits left in an int32 accumulator; negative when it can overflow."""
        return np.asarray(32 - self.bits)


def accumulator_bits(lowest: ArrayLike, highest: ArrayLike) -> NDArray[np.int64]:
    """Count the bits of the narrowest two's complement integer that holds both ends; at least 1."""
    low, high = np.asarray(lowest), np.asarray(highest)
    if (low > high).any():
        raise BadConfigError("The smallest accumulator is larger than the largest one.")
    # n bits hold -2**(n-1) .. 2**(n-1) - 1; ~low turns the low end into a count like the high one.
    magnitude = np.maximum(np.where(low < 0, ~low, 0), np.where(high > 0, high, 0))
    return np.asarray(_bit_length(magnitude) + 1)


def accumulator_bits_bound(
    weights: ArrayLike,
    *,
    w_zero_point: ArrayLike = 0,
    qmin: int,
    qmax: int,
    x_zero_point: int = 0,
    bias: ArrayLike | None = None,
) -> AccumulatorBound:
    """Bound a convolution or matrix product with integer weights [M, ...]; one bound per row.

    Each output value is a sum over all weights of its row; inputs lie in qmin..qmax. Padding is
    real zero, which must lie within (qmin <= x_zero_point <= qmax).
    """
    if not qmin <= x_zero_point <= qmax:
        raise BadConfigError(f"Zero-point {x_zero_point} lies outside {qmin}..{qmax}.")
    w = np.asarray(weights).astype(np.int64)
    rows = w.reshape(w.shape[0], -1)
    zero = np.asarray(w_zero_point).astype(np.int64).reshape(-1)
    if zero.size not in (1, rows.shape[0]):
        raise BadConfigError(f"{zero.size} weight zero-points for {rows.shape[0]} channels.")
    centred = rows - zero[:, None]
    positive = np.maximum(centred, 0).sum(axis=1)
    negative = np.minimum(centred, 0).sum(axis=1)
    low_x, high_x = qmin - x_zero_point, qmax - x_zero_point
    lowest = positive * low_x + negative * high_x
    highest = positive * high_x + negative * low_x
    offset = np.zeros_like(lowest)
    if bias is not None:
        offset = offset + np.asarray(bias).astype(np.int64)
    # Whatever was added so far: a subset of the terms, with or without the bias.
    partial = accumulator_bits(
        np.minimum(lowest, lowest + offset), np.maximum(highest, highest + offset)
    )
    lowest, highest = lowest + offset, highest + offset
    return AccumulatorBound(lowest, highest, accumulator_bits(lowest, highest), partial)


def bias_headroom_bits(bias: ArrayLike) -> NDArray[np.int64]:
    """Count the bits between each bias and int32's ends: 0 if it uses all 32, negative beyond."""
    values = np.asarray(bias).astype(np.int64)
    return np.asarray(32 - accumulator_bits(values, values))


def _bit_length(values: NDArray[np.int64]) -> NDArray[np.int64]:
    # frexp is exact below 2**53 and may be one too large just under a power of two above it.
    length = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    too_long = (length > 0) & ((values >> np.maximum(length - 1, 0)) == 0)
    return np.asarray(length - too_long)
