"""Quantizing and dequantizing as ONNX states them, ranges, and the two errors that come of it.

real = (q - zero_point) * scale, and q = saturate(round_half_to_even(real / scale) + zero_point).
"""

from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.params import (
    Array,
    QuantParams,
    is_integer_type,
    limits,
    storage_dtype,
)
from quantscope.errors import BadConfigError

FloatName = Literal["float32", "float16", "bfloat16"]


def quantize(
    x: ArrayLike,
    params: QuantParams,
    *,
    saturate: bool = True,
    precision: FloatName | None = None,
) -> Array:
    """Quantize as ONNX QuantizeLinear does, opset 10 to 25, to `storage_dtype(params.dtype)`.

    The division is done in the scale's type, as the specification says, or in `precision`.
    (onnxruntime divides float16 tensors in float32; ask for `precision="float32"` to follow it.)
    Infinities saturate. NaN becomes the type's smallest integer, as in onnxruntime on x86; on other
    processors onnxruntime gives other integers, and the specification does not say. In float8 types
    NaN stays NaN, and what is too large becomes the largest finite value, or with `saturate=False`
    NaN (infinity for float8e5m2).
    """
    stored = storage_dtype(params.dtype)
    if not params.is_integer:
        ratio = _ratio(x, params, precision).astype(np.float32)
        # float4 has no NaN or infinity: its conversion saturates by itself.
        if saturate:
            ratio = np.clip(ratio, params.qmin, params.qmax)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(ratio.astype(stored))
    steps = _steps(x, params, precision)
    _, zero_point = params.expand_to(steps.shape)
    integers = np.asarray(np.clip(steps + zero_point, params.qmin, params.qmax))
    unknown = np.isnan(integers)
    if unknown.any():
        integers[unknown] = params.qmin
    # ml_dtypes' small types have no cast from float64 that is sure to be exact.
    return np.asarray(integers.astype(np.int32).astype(stored))


def dequantize(
    q: ArrayLike, params: QuantParams, *, output_dtype: FloatName | None = None
) -> Array:
    """Dequantize as ONNX DequantizeLinear does, opset 10 to 25.

    The product is taken in float32 and rounded once to `output_dtype`, or to the scale's type.
    """
    q = np.asarray(q)
    if q.dtype != storage_dtype(params.dtype):
        _check_fits(q, params)
    scale, zero_point = params.expand_to(q.shape)
    # 16-bit and smaller differences are exact in float32; int32 is rounded, as in onnxruntime.
    centred = q.astype(np.int64) - zero_point if params.is_integer else q
    with np.errstate(over="ignore", invalid="ignore"):
        real = centred.astype(np.float32) * scale.astype(np.float32)
        if output_dtype is not None:
            return np.asarray(real.astype(_float_dtype(output_dtype)))
        return np.asarray(real.astype(_working_dtype(scale)))


def params_from_range(
    lo: ArrayLike,
    hi: ArrayLike,
    dtype: str,
    *,
    symmetric: bool = False,
    reduce_range: bool = False,
    include_zero: bool = True,
    axis: int | None = None,
    ends: tuple[int, int] | None = None,
) -> QuantParams:
    """Spread [lo, hi] over the type's integers, with the rules of onnxruntime's quantizer.

    `lo` and `hi` are numbers or, with `axis`, one per channel. The range is widened to hold zero;
    with `include_zero=False` it is taken as it is, and refused if the zero-point then falls outside
    the type. A range too narrow for a normal float32 scale gets scale 1 and zero-point 0.
    Symmetric int8 and int16 leave the smallest integer unused; `reduce_range` uses the range that
    keeps the 16-bit sums of AVX2 kernels from saturating (int8: -64..64, uint8: 0..127). For float
    types the range is symmetric and its largest magnitude becomes the largest finite value
    (onnxruntime takes float8 scales from the standard deviation of the values instead). `ends` are
    the integers to spread it over where fewer than the type's are in use.
    """
    low, high = np.broadcast_arrays(np.asarray(lo, np.float64), np.asarray(hi, np.float64))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise BadConfigError("A range with NaN or infinity has no scale; give finite ends.")
    if (low > high).any():
        worst = int(np.argmax(low - high))
        found = f"[{low.flat[worst]:g}, {high.flat[worst]:g}]"
        raise BadConfigError(f"Range {found} is reversed; give the low end first.")
    if include_zero:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    is_float = not is_integer_type(dtype)
    if symmetric or is_float:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    used = _used_limits(dtype, symmetric=symmetric, reduce_range=reduce_range)
    qmin, qmax = used if ends is None else ends
    if ends is not None and symmetric and qmin < 0:
        qmin = -qmax
    scale = (high - low) / (qmax - qmin)
    tiny = scale < np.finfo(np.float32).tiny
    scale = np.where(tiny, 1.0, scale)
    if symmetric or is_float:
        zero_point = np.full(scale.shape, np.rint((qmin + qmax) / 2))
    else:
        zero_point = np.rint(qmin - low / scale)
    return QuantParams(scale, np.where(tiny, 0.0, zero_point), dtype, axis=axis, ends=ends)


def range_from_params(params: QuantParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the real values of the type's ends: `params_from_range` the other way round."""
    return params.representable_range


def rounding_error(x: ArrayLike, params: QuantParams) -> NDArray[np.float64]:
    """Compute what rounding adds to each value, as if the type had no ends: at most half a step.

    `rounding_error + clipping_error` is the dequantized value minus x, in float64. For float types
    it is the rounding of x clamped to the representable range.
    """
    x = np.asarray(x)
    scale, _ = params.expand_to(x.shape)
    if params.is_integer:
        return np.asarray(_steps(x, params, None) * scale.astype(np.float64) - x)
    real = quantize(x, params).astype(np.float64) * scale.astype(np.float64)
    return np.asarray(real - _clamp(x, params))


def clipping_error(x: ArrayLike, params: QuantParams) -> NDArray[np.float64]:
    """Compute what the type's ends add to each value; 0 where nothing is clipped, else whole steps.

    For float types it is no whole number of steps.
    """
    x = np.asarray(x)
    if not params.is_integer:
        return np.asarray(_clamp(x, params) - x)
    scale, zero_point = params.expand_to(x.shape)
    integers = _steps(x, params, None) + zero_point
    clipped = np.clip(integers, params.qmin, params.qmax)
    return np.asarray((clipped - integers) * scale.astype(np.float64))


class ClippedFraction(NamedTuple):
    """The shares of all values, each from 0 to 1, that the type's low and high end cut off."""

    low: float
    high: float


def clipped_fraction(x: ArrayLike, params: QuantParams) -> ClippedFraction:
    """Give the share of values whose rounded integer lies outside the type; NaN never counts."""
    if params.is_integer:
        steps = _steps(x, params, None)
        values = steps + params.expand_to(steps.shape)[1]
    else:
        values = _ratio(x, params, None).astype(np.float64)
    count = max(values.size, 1)
    return ClippedFraction(
        np.count_nonzero(values < params.qmin) / count,
        np.count_nonzero(values > params.qmax) / count,
    )


def _float_dtype(name: str) -> np.dtype[Any]:
    types: dict[str, np.dtype[Any]] = {
        "float32": np.dtype(np.float32),
        "float16": np.dtype(np.float16),
        "bfloat16": np.dtype(ml_dtypes.bfloat16),
    }
    if name not in types:
        raise BadConfigError(f"Unknown float type {name!r}; known are {', '.join(types)}.")
    return types[name]


def _working_dtype(scale: Array) -> np.dtype[Any]:
    # float8e8m0 is a type for scales only; what it scales is float32.
    own: np.dtype[Any] = scale.dtype
    return np.dtype(np.float32) if own == ml_dtypes.float8_e8m0fnu else own


def _ratio(x: ArrayLike, params: QuantParams, precision: FloatName | None) -> Array:
    """Divide by the scale in `precision`, or in the scale's own type; not rounded to steps."""
    x = np.asarray(x)
    scale, _ = params.expand_to(x.shape)
    working = _working_dtype(scale) if precision is None else _float_dtype(precision)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(x.astype(working) / scale.astype(working))


def _steps(x: ArrayLike, params: QuantParams, precision: FloatName | None) -> NDArray[np.float64]:
    """Count whole steps from zero, unclamped; float64, so that adding a zero-point is exact."""
    return np.rint(_ratio(x, params, precision).astype(np.float64))


def _clamp(x: Array, params: QuantParams) -> NDArray[np.float64]:
    low, high = (params.expand(end, x.shape) for end in params.representable_range)
    return np.asarray(np.clip(x.astype(np.float64), low, high))


def _used_limits(dtype: str, *, symmetric: bool, reduce_range: bool) -> tuple[int, int]:
    """Give the smallest and largest integer that onnxruntime's quantizer uses of a type."""
    qmin, qmax = limits(dtype)
    if not is_integer_type(dtype):
        return qmin, qmax
    if reduce_range:
        # onnxruntime's table is not one rule: int8 and int16 get one value more, 4 bits do not.
        if qmin == 0:
            return 0, qmax // 2
        return (qmin // 2, -qmin // 2) if dtype in ("int8", "int16") else (qmin // 2, qmax // 2)
    return (-qmax, qmax) if symmetric and dtype in ("int8", "int16") else (qmin, qmax)


def _check_fits(q: Array, params: QuantParams) -> None:
    if not params.is_integer or q.dtype.kind not in "iu":
        raise BadConfigError(f"Values of type {q.dtype} cannot be dequantized as {params.dtype}.")
    if q.size and (int(q.min()) < params.qmin or int(q.max()) > params.qmax):
        raise BadConfigError(
            f"Values {int(q.min())}..{int(q.max())} do not fit {params.dtype} "
            f"({params.qmin}..{params.qmax})."
        )
