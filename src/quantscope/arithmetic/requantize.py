"""This module turns accumulators into quantized integers: the multiplier, rounding and clamp."""

from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.params import Array, limits, storage_dtype
from quantscope.errors import BadConfigError

Precision: TypeAlias = Literal["float32", "float64", "exact"]
"""The arithmetic of a requantization: as runtimes do it, in float64, or without any rounding."""
Int64Array: TypeAlias = NDArray[np.int64]

_INT32 = np.iinfo(np.int32)


def int32_overflow_count(accumulator: Int64Array) -> int:
    """Count the values that a 32-bit accumulator could not hold."""
    return int(np.count_nonzero((accumulator < _INT32.min) | (accumulator > _INT32.max)))


def wrap_int32(accumulator: Int64Array) -> NDArray[np.int32]:
    """Keep the low 32 bits, which is what 32-bit hardware is left with."""
    return np.asarray(accumulator.astype(np.uint32).view(np.int32))


def requantization_multiplier(
    x_scale: ArrayLike,
    w_scale: ArrayLike,
    y_scale: ArrayLike,
    *,
    precision: Precision = "float32",
) -> Array:
    """Compute sx * sw / sy, in the type from which `requantize` takes its precision.

    "float32" rounds each operation to float32, left to right, as onnxruntime and onnx's reference
    do. "float64" computes with the float32 scales in float64. "exact" gives `Fraction`s.
    """
    scales = [np.asarray(s) for s in (x_scale, w_scale, y_scale)]
    if precision == "exact":
        exact: list[Any] = [_as_fractions(s) for s in scales]
        return np.asarray(exact[0] * exact[1] / exact[2], dtype=object)
    x, w, y = (_as_floats(s, precision) for s in scales)
    return np.asarray(x * w / y)


def requantize(
    accumulator: Int64Array,
    multiplier: ArrayLike,
    zero_point: int,
    dtype: str,
    *,
    channel_axis: int = 1,
) -> Array:
    """Turn accumulators into integers of `dtype`, in the multiplier's own precision.

    A float32 multiplier also rounds accumulators beyond 2**24 to float32 before the product, as
    runtimes do; a float64 one (or a Python float) does not; `Fraction`s are exact. A 1-d
    multiplier belongs to `channel_axis`; any other shape must broadcast.
    """
    multiplier = np.asarray(multiplier)
    if multiplier.ndim == 1 and multiplier.size > 1:
        multiplier = per_channel(multiplier, accumulator.ndim, axis=channel_axis)
    elif multiplier.size == 1:
        multiplier = multiplier.reshape(())
    if multiplier.dtype == object:
        steps = _exact_steps(accumulator, multiplier)
    else:
        working: Any = np.float32 if multiplier.dtype == np.float32 else np.float64
        steps = np.rint(accumulator.astype(working) * multiplier.astype(working))
    return saturate(steps, zero_point, dtype)


def saturate(steps: Array, zero_point: int, dtype: str) -> Array:
    """Add the zero-point to whole steps and clamp to the type. NaN (0 * inf) is not expected."""
    qmin, qmax = limits(dtype)
    integers = np.clip(steps.astype(np.float64) + zero_point, qmin, qmax)
    # ml_dtypes' small types have no cast from float64 that is sure to be exact.
    return np.asarray(integers.astype(np.int32).astype(storage_dtype(dtype)))


def add_steps(
    left: Int64Array,
    left_scale: Array,
    right: Int64Array,
    right_scale: Array,
    out_scale: Array,
    *,
    precision: Precision,
) -> NDArray[np.float64]:
    """Round (left * sl + right * sr) / so to whole steps, half to even; scales are numbers."""
    working: Precision = "float64" if precision == "exact" else precision
    sl, sr, so = (_as_floats(s, working) for s in (left_scale, right_scale, out_scale))
    close = (left.astype(sl.dtype) * sl + right.astype(sl.dtype) * sr) / so
    steps = np.asarray(np.rint(close), np.float64)
    if precision == "exact":
        where = np.nonzero(_near_tie(close))
        factors = [Fraction(float(s)) / Fraction(float(so)) for s in (sl, sr)]
        pairs = [np.broadcast_to(v, close.shape)[where] for v in (left, right)]
        steps[where] = [
            round(int(a) * factors[0] + int(b) * factors[1]) for a, b in zip(*pairs, strict=True)
        ]
    return steps


def fixed_point_multiplier(real: float) -> tuple[int, int]:
    """Split into (mantissa, shift): real ~ mantissa * 2**(shift - 31), mantissa in [2**30, 2**31).

    It is the convention of gemmlowp and TFLite: a positive shift is to the left. The mantissa is
    rounded half away from zero; 0 gives (0, 0).
    """
    if not np.isfinite(real) or real < 0:
        raise BadConfigError(f"Multiplier {real:g} is not a positive number.")
    if real == 0:
        return 0, 0
    fraction, shift = np.frexp(np.float64(real))
    mantissa = int(np.floor(float(fraction) * 2**31 + 0.5))
    if mantissa == 2**31:  # rounding reached the next power of two
        mantissa, shift = 2**30, shift + 1
    return mantissa, int(shift)


def multiply_by_quantized_multiplier(
    accumulator: ArrayLike, mantissa: int, shift: int
) -> Int64Array:
    """Compute accumulator * mantissa * 2**(shift - 31) in integers, as gemmlowp and TFLite do.

    It rounds twice: the high half of the doubled product, ties upwards, then the right shift, ties
    away from zero. So it may differ by one from `requantize`, which rounds once, half to even.
    """
    values = np.asarray(accumulator).astype(np.int64) << max(shift, 0)
    if int32_overflow_count(values):
        raise BadConfigError(f"Accumulators shifted left by {shift} leave int32.")
    product = values * np.int64(mantissa)
    nudge = np.where(product >= 0, 2**30, 1 - 2**30)
    total = product + nudge
    high = np.where(total >= 0, total >> 31, -((-total) >> 31))
    right = max(-shift, 0)
    if right == 0:
        return np.asarray(high)
    half = np.where(high < 0, (1 << (right - 1)) - 1, 1 << (right - 1))
    return np.asarray((high + half) >> right)


def per_channel(values: ArrayLike, ndim: int, *, axis: int) -> Array:
    """Shape a number, or one value per entry of `axis`, to broadcast against `ndim` axes.

    Integers become int64, so that adding or subtracting them cannot wrap.
    """
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        array = array.astype(np.int64)
    if array.size == 1:
        return array.reshape(())
    return array.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def _as_fractions(scale: Array) -> Array:
    flat = [Fraction(float(s)) for s in np.asarray(scale).ravel()]
    exact = np.empty(len(flat), object)
    exact[:] = flat
    return exact.reshape(np.shape(scale))


def _as_floats(scale: Array, precision: Precision) -> Array:
    return np.asarray(scale, np.float32 if precision == "float32" else np.float64)


def _near_tie(steps: Array) -> NDArray[np.bool_]:
    """Mark where float64 may round the wrong way: near a tie, and not so large as to saturate."""
    # Below 2**33 float64 is off by about 2**-19 of a step; beyond it every type saturates.
    off_tie = np.abs(np.abs(steps - np.floor(steps)) - 0.5)
    return np.asarray((off_tie < 1e-4) & (np.abs(steps) < 2**33))


def _exact_steps(accumulator: Int64Array, multiplier: Array) -> NDArray[np.float64]:
    """Round the products with an array of `Fraction`s, exactly, half to even."""
    # float64 is sure wherever it is not near a tie; only those few need big integers.
    close = accumulator.astype(np.float64) * multiplier.astype(np.float64)
    steps = np.asarray(np.rint(close))
    where = np.nonzero(_near_tie(close))
    factors = np.broadcast_to(multiplier, accumulator.shape)[where]
    steps[where] = [
        round(int(v) * Fraction(f)) for v, f in zip(accumulator[where], factors, strict=True)
    ]
    return steps
