"""Scales, zero-points and the types they quantize to: what each means, and which are refused."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.errors import BadConfigError

Array = NDArray[Any]
"""An array of any type, those of ml_dtypes included."""

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
# Largest finite value and smallest positive one.
_FLOAT_EXTREMES = {
    name: (int(float(info.max)), float(info.smallest_subnormal))
    for name, info in ((n, ml_dtypes.finfo(t)) for n, t in _FLOATS.items())  # type: ignore[no-untyped-call]
}
_SCALE_TYPES = tuple(
    np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu)
)
# No zero-point but 0: ONNX forbids it for int32, and the float types are symmetric by nature.
_ZERO_POINT_IS_ZERO = {"int32", *_FLOATS}

DTYPE_NAMES: tuple[str, ...] = (*_INTEGERS, *_FLOATS)
"""The names of all types that a tensor can be quantized to."""
_NAME_OF = {np.dtype(t): name for name, t in (_INTEGERS | _FLOATS).items()}


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """Give the NumPy (or ml_dtypes) type whose arrays hold quantized values of this type."""
    found = _INTEGERS.get(dtype, _FLOATS.get(dtype))
    if found is None:
        raise BadConfigError(
            f"Unknown quantized type {dtype!r}; known are {', '.join(DTYPE_NAMES)}."
        )
    stored: np.dtype[Any] = np.dtype(found)
    return stored


def dtype_name(dtype: Any) -> str:
    """Give the name used here for a NumPy or ml_dtypes type; raise if it is no quantized type."""
    name = _NAME_OF.get(np.dtype(dtype))
    if name is None:
        raise BadConfigError(f"{np.dtype(dtype)} is not one of {', '.join(DTYPE_NAMES)}.")
    return name


def is_integer_type(dtype: str) -> bool:
    return dtype in _INTEGERS


def bits_of(dtype: str) -> int:
    """Count the bits that a stored value takes."""
    storage_dtype(dtype)
    digits = dtype.removeprefix("u").removeprefix("int").removeprefix("float")
    return int(digits.partition("e")[0])


def type_text(dtype: str, bits: int) -> str:
    """Name a type, with the bits in use where they are fewer: "int8, 6 of 8 bits"."""
    held = bits_of(dtype)
    return dtype if bits == held else f"{dtype}, {bits} of {held} bits"


def limits(dtype: str) -> tuple[int, int]:
    """Give the smallest and largest value of the type; for float types the finite ones.

    Those are whole numbers too.
    """
    bits = bits_of(dtype)
    if dtype in _FLOATS:
        largest = _FLOAT_EXTREMES[dtype][0]
        return -largest, largest
    if dtype.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@dataclass(frozen=True, eq=False)
class QuantParams:
    """The scale and zero-point of a tensor, and the type that it is quantized to.

    The scale is 0-d (per tensor), 1-d along `axis` (per channel), or, with a `block_size`, of the
    tensor's rank, each value serving `block_size` neighbours along `axis`. It keeps its type among
    float32, float16, bfloat16 and float8e8m0, since that type decides how ONNX divides; anything
    else becomes float32. `zero_point` is int64 of the scale's shape. Both arrays are read-only
    copies. `ends` are the smallest and largest integer that are used, None for all that the type
    has: of a tensor that has 6 bits in an int8 they are -32 and 31. Equal parameters compare and
    hash as equal.
    """

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    dtype: str
    axis: int | None
    block_size: int
    ends: tuple[int, int] | None

    def __init__(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike | None = None,
        dtype: str = "uint8",
        *,
        axis: int | None = None,
        block_size: int = 0,
        ends: tuple[int, int] | None = None,
    ) -> None:
        checked_scale = _check_scale(scale, axis, block_size)
        checked_ends = _check_ends(ends, dtype)
        checked_zero_point = _check_zero_point(zero_point, checked_scale, dtype, checked_ends)
        for array in (checked_scale, checked_zero_point):
            array.setflags(write=False)
        object.__setattr__(self, "scale", checked_scale)
        object.__setattr__(self, "zero_point", checked_zero_point)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axis", axis if checked_scale.ndim else None)
        object.__setattr__(self, "block_size", int(block_size))
        object.__setattr__(self, "ends", checked_ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantParams) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        scale, zero_point = self.scale, self.zero_point
        values = (str(scale.dtype), scale.shape, scale.tobytes(), zero_point.tobytes())
        return (*values, self.dtype, self.axis, self.block_size, self.ends)

    def changed(
        self,
        *,
        scale: ArrayLike | None = None,
        zero_point: ArrayLike | None = None,
        axis: int | None = None,
        ends: tuple[int, int] | None = None,
    ) -> "QuantParams":
        """Give the same parameters with another scale, zero-point or axis, or other ends."""
        return QuantParams(
            self.scale if scale is None else scale,
            self.zero_point if zero_point is None else zero_point,
            self.dtype,
            axis=self.axis if axis is None else axis,
            block_size=self.block_size,
            ends=self.ends if ends is None else ends,
        )

    def has_grid_of(self, other: "QuantParams") -> bool:
        """Say whether integers stand for the same values in both, whichever of them are in use."""
        return self._key()[:-1] == other._key()[:-1]

    @property
    def qmin(self) -> int:
        """The smallest integer that is used."""
        return limits(self.dtype)[0] if self.ends is None else self.ends[0]

    @property
    def qmax(self) -> int:
        """The largest integer that is used."""
        return limits(self.dtype)[1] if self.ends is None else self.ends[1]

    @property
    def bits(self) -> int:
        """The bits that tell the integers in use apart."""
        return self.type_bits if self.ends is None else (self.qmax - self.qmin).bit_length()

    @property
    def type_bits(self) -> int:
        """The bits that a stored value takes."""
        return bits_of(self.dtype)

    @property
    def type_text(self) -> str:
        """The type, with the bits in use where they are fewer: "int8, 6 of 8 bits"."""
        return type_text(self.dtype, self.bits)

    @property
    def is_integer(self) -> bool:
        return is_integer_type(self.dtype)

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.ndim == 0

    @property
    def step(self) -> NDArray[np.float64]:
        """The distance of neighbouring real values; in float types the smallest, next to zero."""
        finest = 1.0 if self.is_integer else _FLOAT_EXTREMES[self.dtype][1]
        return np.asarray(np.abs(self.scale.astype(np.float64)) * finest)

    @property
    def representable_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and largest real value, in the scale's shape; not rounded to float32."""
        scale = self.scale.astype(np.float64)
        # A negative scale turns the ends round.
        ends = (self.qmin - self.zero_point) * scale, (self.qmax - self.zero_point) * scale
        return np.asarray(np.minimum(*ends)), np.asarray(np.maximum(*ends))

    def expand_to(self, shape: tuple[int, ...]) -> tuple[Array, NDArray[np.int64]]:
        """Shape scale and zero-point so that they broadcast against a tensor of this shape."""
        return self.expand(self.scale, shape), self.expand(self.zero_point, shape)

    def expand(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Shape values, one per scale, so that they broadcast against a tensor of `shape`."""
        if values.size == 1:
            return values.reshape(())
        axis = self.axis
        if axis is None or not -len(shape) <= axis < len(shape):
            raise BadConfigError(f"Axis {axis} does not exist in a tensor of shape {list(shape)}.")
        axis %= len(shape)
        if not self.block_size:
            if values.size != shape[axis]:
                raise BadConfigError(
                    f"{values.size} scales for axis {axis} of a tensor of shape {list(shape)}; "
                    f"give {shape[axis]}, one per channel."
                )
            return values.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        blocks = -(-shape[axis] // self.block_size)
        needed = (*shape[:axis], blocks, *shape[axis + 1 :])
        if values.shape != needed:
            raise BadConfigError(
                f"Block scales of shape {list(values.shape)} do not fit a tensor of shape "
                f"{list(shape)} in blocks of {self.block_size} along axis {axis}; "
                f"give them shape {list(needed)}."
            )
        # The last block may be cut short by the tensor's end.
        repeated = np.repeat(values, self.block_size, axis=axis)
        return np.asarray(repeated.take(np.arange(shape[axis]), axis=axis))


def _check_scale(scale: ArrayLike, axis: int | None, block_size: int) -> Array:
    """Give a copy of the scale that `QuantParams` may keep; raise one line if it cannot be one."""
    given = np.asarray(scale)
    if given.dtype.kind not in "fiu" and given.dtype not in _SCALE_TYPES:
        raise BadConfigError(f"A scale of type {given.dtype} is not a number; give a float32.")
    with np.errstate(over="ignore"):
        array = np.array(given if given.dtype in _SCALE_TYPES else given.astype(np.float32))
    if array.ndim == 1 and array.size == 1 and axis is None:
        array = array.reshape(())
    if block_size < 0:
        raise BadConfigError(f"Block size {block_size} is negative; give 0 for no blocks.")
    if array.size == 0:
        raise BadConfigError("No scale at all; give a number or one per channel.")
    if array.ndim > 1 and not block_size:
        raise BadConfigError(
            f"A scale of shape {list(array.shape)} needs a block size; "
            "without one it is a number or one number per channel."
        )
    if array.ndim and axis is None:
        raise BadConfigError(f"{array.size} scales and no axis; say which axis they belong to.")
    values = array.astype(np.float32).ravel()
    # onnxruntime's symmetric block quantizer writes negative scales on purpose.
    size = np.abs(values) if block_size else values
    bad = ~np.isfinite(values) | (size < np.finfo(np.float32).tiny)
    if bad.any():
        where = int(np.argmax(bad))
        value = values[where]
        kind = "is too small (denormal)"
        if not np.isfinite(value):
            kind = "is not finite"
        elif value <= 0:
            kind = "is not positive"
        place = f" (channel {where})" if values.size > 1 else ""
        raise BadConfigError(
            f"Scale {value:g}{place} {kind}; give a positive number from 1.2e-38 to 3.4e+38."
        )
    return array


def _check_ends(ends: tuple[int, int] | None, dtype: str) -> tuple[int, int] | None:
    """Give the ends, None for the type's own; raise one line if they are none of it."""
    qmin, qmax = limits(dtype)
    if ends is None or tuple(ends) == (qmin, qmax):
        return None
    low, high = (int(end) for end in ends)
    if not is_integer_type(dtype):
        raise BadConfigError(f"{dtype} has no integers to leave out, so no ends {low} and {high}.")
    if not qmin <= low < high <= qmax:
        raise BadConfigError(
            f"The ends {low} and {high} are none of {dtype}; give two from {qmin} to {qmax}, the "
            f"smaller one first."
        )
    return low, high


def _check_zero_point(
    zero_point: ArrayLike | None, scale: Array, dtype: str, ends: tuple[int, int] | None
) -> NDArray[np.int64]:
    """Give a copy of the zero-point in the scale's shape; raise one line if it does not fit."""
    qmin, qmax = ends or limits(dtype)
    given = np.zeros(scale.shape, np.int64) if zero_point is None else np.asarray(zero_point)
    if given.dtype.kind == "f" or given.dtype in _NAME_OF:
        given = given.astype(np.float64)
        if not (np.isfinite(given) & (given == np.rint(given))).all():
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
        found = int(array[outside][0])
        allowed = f"one from {qmin} to {qmax}" if qmin < qmax else "0, its only one"
        what = dtype if ends is None else f"{dtype} from {qmin} to {qmax}"
        raise BadConfigError(f"Zero-point {found} does not fit {what}; give {allowed}.")
    return np.array(array)  # a copy: it is made read-only, and the caller's array must not be
