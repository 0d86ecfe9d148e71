"""Quantize and dequantize as ONNX states them, and what scale and zero-point mean.

real = (q - zero_point) * scale, and q = saturate(round_half_to_even(real / scale) + zero_point).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.errors import BadConfigError

Array = NDArray[Any]

_INTEGERS: dict[str, Any] = {
    "uint8": np.uint8,
    "int8": np.int8,
    "uint16": np.uint16,
    "int16": np.int16,
    "int32": np.int32,
    "uint4": ml_dtypes.uint4,
    "int4": ml_dtypes.int4,
    "uint2": ml_dtypes.uint2,
    "int2": ml_dtypes.int2,
}
_FLOATS: dict[str, Any] = {
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
}
_SCALE_TYPES = tuple(
    np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu)
)
# No zero-point but 0: ONNX forbids it for int32, and the float types are symmetric by nature.
_ZERO_POINT_IS_ZERO = {"int32", *_FLOATS}

DTYPE_NAMES = (*_INTEGERS, *_FLOATS)
_NAME_OF = {np.dtype(t): name for name, t in (_INTEGERS | _FLOATS).items()}

FloatName = Literal["float32", "float16", "bfloat16"]


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) type whose arrays hold quantized values of this type."""
    found = _INTEGERS.get(dtype, _FLOATS.get(dtype))
    if found is None:
        raise BadConfigError(
            f"Unknown quantized type {dtype!r}; known are {', '.join(DTYPE_NAMES)}."
        )
    return np.dtype(found)


def dtype_name(dtype: Any) -> str:
    """The name used here for a NumPy or ml_dtypes type; an error when it is no quantized type."""
    name = _NAME_OF.get(np.dtype(dtype))
    if name is None:
        raise BadConfigError(f"{np.dtype(dtype)} is not one of {', '.join(DTYPE_NAMES)}.")
    return name


def limits(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of the type; of float types the finite ones, all whole numbers."""
    stored = storage_dtype(dtype)
    if dtype in _FLOATS:
        largest = int(ml_dtypes.finfo(stored).max)
        return -largest, largest
    info = ml_dtypes.iinfo(stored) if dtype.endswith(("int4", "int2")) else np.iinfo(stored)
    return int(info.min), int(info.max)


@dataclass(frozen=True, eq=False)
class QuantParams:
    """Scale and zero-point of a tensor.

    The scale is 0-d (per tensor), 1-d along `axis` (per channel), or, with a `block_size`, of the
    tensor's rank, each value serving `block_size` neighbours along `axis`. It keeps its type among
    float32, float16, bfloat16 and float8e8m0, since that type decides how ONNX divides; anything
    else becomes float32. `zero_point` is int64 of the scale's shape. Both arrays are read-only.
    """

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    dtype: str
    axis: int | None
    block_size: int

    def __init__(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike | None = None,
        dtype: str = "uint8",
        *,
        axis: int | None = None,
        block_size: int = 0,
    ) -> None:
        checked_scale = _checked_scale(scale, axis, block_size)
        checked_zero_point = _checked_zero_point(zero_point, checked_scale, dtype)
        for array in (checked_scale, checked_zero_point):
            array.setflags(write=False)
        object.__setattr__(self, "scale", checked_scale)
        object.__setattr__(self, "zero_point", checked_zero_point)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axis", axis if checked_scale.ndim else None)
        object.__setattr__(self, "block_size", int(block_size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantParams) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        scale, zero_point = self.scale, self.zero_point
        values = (scale.dtype.str, scale.shape, scale.tobytes(), zero_point.tobytes())
        return (*values, self.dtype, self.axis, self.block_size)

    @property
    def qmin(self) -> int:
        return limits(self.dtype)[0]

    @property
    def qmax(self) -> int:
        return limits(self.dtype)[1]

    @property
    def is_integer(self) -> bool:
        return self.dtype in _INTEGERS

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.ndim == 0

    @property
    def bits(self) -> int:
        """Bits a stored value takes."""
        digits = self.dtype.removeprefix("u").removeprefix("int").removeprefix("float")
        return int(digits.partition("e")[0])

    @property
    def step(self) -> NDArray[np.float64]:
        """Distance of neighbouring real values; of float types the smallest one, next to zero."""
        scale = np.asarray(self.scale, np.float64)
        if self.is_integer:
            return scale
        finest = ml_dtypes.finfo(storage_dtype(self.dtype)).smallest_subnormal
        return np.asarray(scale * float(finest))

    @property
    def representable_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest real value, of the scale's shape; exact, not rounded to float32."""
        scale = np.asarray(self.scale, np.float64)
        return (
            np.asarray((self.qmin - self.zero_point) * scale),
            np.asarray((self.qmax - self.zero_point) * scale),
        )

    def expanded_to(self, shape: tuple[int, ...]) -> tuple[Array, NDArray[np.int64]]:
        """Scale and zero-point, shaped so that they broadcast against a tensor of this shape."""
        return _expand(self.scale, shape, self), _expand(self.zero_point, shape, self)


def quantize(
    x: ArrayLike,
    params: QuantParams,
    *,
    saturate: bool = True,
    precision: FloatName | None = None,
) -> Array:
    """ONNX QuantizeLinear, opset 10 to 25; the result has `storage_dtype(params.dtype)`.

    The division is done in the scale's type, as the specification says, or in `precision`.
    (onnxruntime divides float16 tensors in float32; ask for `precision="float32"` to follow it.)
    Infinities saturate. NaN becomes the type's smallest integer, as in onnxruntime; the
    specification does not say. In float8 types NaN stays NaN, and what is too large becomes the
    largest finite value, or with `saturate=False` NaN (infinity for float8e5m2).
    """
    stored = storage_dtype(params.dtype)
    if not params.is_integer:
        ratio = _ratio(x, params, precision).astype(np.float32)
        # float4 has no NaN or infinity: its conversion saturates by itself.
        if saturate:
            ratio = np.clip(ratio, params.qmin, params.qmax)
        return _cast_quietly(ratio, stored)
    steps = _steps(x, params, precision)
    _, zero_point = params.expanded_to(steps.shape)
    integers = np.clip(steps + zero_point, params.qmin, params.qmax)
    unknown = np.isnan(integers)
    if unknown.any():
        integers[unknown] = params.qmin
    return np.asarray(integers.astype(np.int64 if params.bits > 16 else np.int32).astype(stored))


def dequantize(
    q: ArrayLike, params: QuantParams, *, output_dtype: FloatName | None = None
) -> Array:
    """ONNX DequantizeLinear, opset 10 to 25; the scale's type unless `output_dtype` says another.

    Multiplies in float32 and rounds once to the output's type.
    """
    q = np.asarray(q)
    if params.is_integer and q.dtype != storage_dtype(params.dtype):
        _check_fits(q, params)
    scale, zero_point = params.expanded_to(q.shape)
    # 16-bit and smaller differences are exact in float32; int32 is rounded, as in onnxruntime.
    centred = q.astype(np.int64) - zero_point if params.is_integer else q
    real = centred.astype(np.float32) * scale.astype(np.float32)
    if output_dtype is not None:
        return np.asarray(real.astype(_float_dtype(output_dtype)))
    # float8e8m0 is a type for scales only; what it scales is float32.
    own = scale.dtype if scale.dtype != ml_dtypes.float8_e8m0fnu else np.dtype(np.float32)
    return np.asarray(real.astype(own))


def params_from_range(
    lo: ArrayLike,
    hi: ArrayLike,
    dtype: str,
    *,
    symmetric: bool = False,
    reduce_range: bool = False,
    include_zero: bool = True,
    axis: int | None = None,
) -> QuantParams:
    """The scale and zero-point that spread [lo, hi] over the type, as onnxruntime's quantizer does.

    `lo` and `hi` are numbers or, with `axis`, one per channel. The range is widened to hold zero;
    with `include_zero=False` it is taken as it is, and refused if the zero-point then falls outside
    the type. A range too narrow for a normal float32 scale gets scale 1 and zero-point 0.
    Symmetric int8 and int16 leave the smallest integer unused; `reduce_range` uses the range that
    keeps the 16-bit sums of AVX2 kernels from saturating (int8: -64..64, uint8: 0..127). For float
    types the range is symmetric and its largest magnitude becomes the largest finite value
    (onnxruntime takes float8 scales from the standard deviation of the values instead).
    """
    low, high = np.broadcast_arrays(np.asarray(lo, np.float64), np.asarray(hi, np.float64))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise BadConfigError("A range with NaN or infinity has no scale; give finite ends.")
    if (low > high).any():
        worst = int(np.argmax(low - high))
        raise BadConfigError(
            f"Range [{low.flat[worst]:g}, {high.flat[worst]:g}] is reversed; give the low end first."
        )
    if include_zero:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    is_float = dtype in _FLOATS
    if symmetric or is_float:
        high = np.maximum(np.abs(low), np.abs(high))
        low = -high
    qmin, qmax = _used_limits(dtype, symmetric=symmetric, reduce_range=reduce_range)
    scale = (high - low) / (qmax - qmin)
    tiny = scale < np.finfo(np.float32).tiny
    scale = np.where(tiny, 1.0, scale)
    if is_float:
        zero_point = np.zeros(scale.shape)
    elif symmetric:
        zero_point = np.full(scale.shape, np.rint((qmin + qmax) / 2))
    else:
        zero_point = np.rint(qmin - low / scale)
    zero_point = np.where(tiny, 0.0, zero_point)
    return QuantParams(scale, zero_point.astype(np.int64), dtype, axis=axis)


def range_from_params(params: QuantParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The inverse of `params_from_range`: the real ends that the type's ends stand for."""
    return params.representable_range


def rounding_error(x: ArrayLike, params: QuantParams) -> NDArray[np.float64]:
    """What rounding adds to each value, as if the type had no ends: at most half a step.

    `rounding_error + clipping_error` is dequantized minus x. (Float types: rounding of the value
    clamped to the representable range.)
    """
    x64 = np.asarray(x, np.float64)
    if not params.is_integer:
        low, high = (_expand(end, x64.shape, params) for end in params.representable_range)
        return np.asarray(_dequantized64(quantize(x, params), params) - np.clip(x64, low, high))
    scale, _ = params.expanded_to(x64.shape)
    return np.asarray(_steps(x, params, None) * scale.astype(np.float64) - x64)


def clipping_error(x: ArrayLike, params: QuantParams) -> NDArray[np.float64]:
    """What the type's ends add to each value; 0 where nothing was clipped, else whole steps."""
    x64 = np.asarray(x, np.float64)
    if not params.is_integer:
        low, high = (_expand(end, x64.shape, params) for end in params.representable_range)
        return np.asarray(np.clip(x64, low, high) - x64)
    scale, zero_point = params.expanded_to(x64.shape)
    integers = _steps(x, params, None) + zero_point
    clipped = np.clip(integers, params.qmin, params.qmax)
    return np.asarray((clipped - integers) * scale.astype(np.float64))


class ClippedFraction(NamedTuple):
    """Shares of all values, each from 0 to 1, that the type's low and high end cut off."""

    low: float
    high: float


def clipped_fraction(x: ArrayLike, params: QuantParams) -> ClippedFraction:
    """A value counts when its rounded integer lies outside the type; NaN never counts."""
    if params.is_integer:
        steps = _steps(x, params, None)
        integers = steps + params.expanded_to(steps.shape)[1]
        low, high = integers < params.qmin, integers > params.qmax
    else:
        ratio = _ratio(x, params, None).astype(np.float32)
        low, high = ratio < params.qmin, ratio > params.qmax
    count = max(low.size, 1)
    return ClippedFraction(np.count_nonzero(low) / count, np.count_nonzero(high) / count)


def _float_dtype(name: str) -> np.dtype[Any]:
    types: dict[str, Any] = {
        "float32": np.float32,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
    }
    if name not in types:
        raise BadConfigError(f"Unknown float type {name!r}; known are {', '.join(types)}.")
    return np.dtype(types[name])


def _ratio(x: ArrayLike, params: QuantParams, precision: FloatName | None) -> Array:
    x = np.asarray(x)
    scale, _ = params.expanded_to(x.shape)
    working = scale.dtype if precision is None else _float_dtype(precision)
    if working == ml_dtypes.float8_e8m0fnu:
        working = np.dtype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x.astype(working) / scale.astype(working))


def _steps(x: ArrayLike, params: QuantParams, precision: FloatName | None) -> NDArray[np.float64]:
    """x in whole steps from zero, unclamped; float64, so that adding a zero-point is exact."""
    return np.asarray(np.rint(_ratio(x, params, precision)), np.float64)


def _dequantized64(q: Array, params: QuantParams) -> NDArray[np.float64]:
    scale, _ = params.expanded_to(q.shape)
    return np.asarray(q.astype(np.float64) * scale.astype(np.float64))


def _cast_quietly(values: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values.astype(dtype))


def _expand(values: Array, shape: tuple[int, ...], params: QuantParams) -> Array:
    if values.size == 1:
        return values.reshape(())
    axis = params.axis
    if axis is None or not -len(shape) <= axis < len(shape):
        raise BadConfigError(f"Axis {axis} does not exist in a tensor of shape {list(shape)}.")
    axis %= len(shape)
    if not params.block_size:
        if values.size != shape[axis]:
            raise BadConfigError(
                f"{values.size} scales for axis {axis} of a tensor of shape {list(shape)}; "
                f"give {shape[axis]}, one per channel."
            )
        return values.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    blocks = -(-shape[axis] // params.block_size)
    needed = (*shape[:axis], blocks, *shape[axis + 1 :])
    if values.shape != needed:
        raise BadConfigError(
            f"Block scales of shape {list(values.shape)} do not fit a tensor of shape "
            f"{list(shape)} in blocks of {params.block_size} along axis {axis}; "
            f"give them shape {list(needed)}."
        )
    repeated = np.repeat(values, params.block_size, axis=axis)
    return np.asarray(repeated.take(np.arange(shape[axis]), axis=axis))


def _used_limits(dtype: str, *, symmetric: bool, reduce_range: bool) -> tuple[int, int]:
    qmin, qmax = limits(dtype)
    if dtype in _FLOATS:
        return qmin, qmax
    if reduce_range:
        # onnxruntime's table is not one rule: int8 and int16 get one value more, 4 bits do not.
        if qmin == 0:
            return 0, qmax // 2
        return (qmin // 2, -qmin // 2) if dtype in ("int8", "int16") else (qmin // 2, qmax // 2)
    if symmetric and dtype in ("int8", "int16"):
        return -qmax, qmax
    return qmin, qmax


def _check_fits(q: Array, params: QuantParams) -> None:
    if q.dtype.kind not in "iu" and q.dtype not in _NAME_OF:
        raise BadConfigError(f"Quantized values must be integers, not {q.dtype}.")
    if q.size == 0:
        return
    low, high = int(q.min()), int(q.max())
    if low < params.qmin or high > params.qmax:
        raise BadConfigError(
            f"Values {low}..{high} do not fit {params.dtype} ({params.qmin}..{params.qmax})."
        )


def _checked_scale(scale: ArrayLike, axis: int | None, block_size: int) -> NDArray[np.float32]:
    given = np.asarray(scale)
    if given.dtype not in _SCALE_TYPES:
        given = _cast_quietly(given, np.dtype(np.float32))
    array = np.array(given)
    if array.ndim == 1 and array.size == 1 and axis is None:
        array = array.reshape(())
    if block_size < 0:
        raise BadConfigError(f"Block size {block_size} is negative; give 0 for no blocks.")
    if array.ndim > 1 and not block_size:
        raise BadConfigError(
            f"A scale of shape {list(array.shape)} needs a block size; "
            "without one it is a number or one number per channel."
        )
    if array.ndim and axis is None:
        raise BadConfigError(f"{array.size} scales and no axis; say which axis they belong to.")
    if array.size == 0:
        raise BadConfigError("No scale at all; give a number or one per channel.")
    values = array.astype(np.float32)
    bad = ~np.isfinite(values) | (values < np.finfo(np.float32).tiny)
    if bad.any():
        where = int(np.argmax(bad.ravel()))
        value = values.ravel()[where]
        place = f" (channel {where})" if values.size > 1 else ""
        kind = (
            "is not finite"
            if not np.isfinite(value)
            else "is not positive"
            if value <= 0
            else "is too small (denormal)"
        )
        raise BadConfigError(
            f"Scale {value:g}{place} {kind}; give a positive number from 1.2e-38 to 3.4e38."
        )
    return array


def _checked_zero_point(
    zero_point: ArrayLike | None, scale: Array, dtype: str
) -> NDArray[np.int64]:
    qmin, qmax = limits(dtype)
    if zero_point is None:
        return np.zeros(scale.shape, np.int64)
    given = np.asarray(zero_point)
    if dtype in _FLOATS or given.dtype.kind == "f":
        given = given.astype(np.float64)
        if not (np.isfinite(given).all() and (given == np.rint(given)).all()):
            raise BadConfigError(f"Zero-point {given.tolist()} is not a whole number.")
    array = given.astype(np.int64)
    if array.size == 1:
        array = np.full(scale.shape, array.item(), np.int64)
    if array.shape != scale.shape:
        raise BadConfigError(
            f"{array.size} zero-points for {scale.size} scales; give as many, or a single one."
        )
    if dtype in _ZERO_POINT_IS_ZERO:
        qmin = qmax = 0
    outside = (array < qmin) | (array > qmax)
    if outside.any():
        found = int(array.ravel()[int(np.argmax(outside.ravel()))])
        raise BadConfigError(
            f"Zero-point {found} is outside {dtype}; give one from {qmin} to {qmax}."
            if qmin < qmax
            else f"Zero-point {found} for {dtype}; this type has zero-point 0 only."
        )
    return np.array(array)
