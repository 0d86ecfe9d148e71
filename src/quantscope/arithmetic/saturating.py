"""This module follows onnxruntime's AVX2 kernels for 8-bit products without VNNI, bit for bit.

vpmaddubsw multiplies uint8 activations with int8 weights and adds the products of two neighbours in
16 bits, saturating; the pair sums are then widened and added exactly. Neighbours are K positions
(0, 1), (2, 3), ...; in a convolution K runs over kernel positions and, innermost, over the channels
of a group, so a pair may span two kernel positions when the channels are odd. Zero-points are
corrected afterwards, so raw uint8 and int8 values meet in the kernel, padding being the zero-point.

Measured on such a CPU with onnxruntime 1.31 (constant or computed weights, per tensor or per
channel, any zero-points, optimizations on or off, 1 to 3 spatial axes): QLinearConv, QLinearMatMul,
MatMulInteger and QGemm saturate for uint8 x int8. Nothing saturates for int8 x int8, uint8 x uint8
and int8 x uint8 (16-bit multiplications), in depthwise convolutions (one channel in and one out
per group, also with a single group), and in ConvInteger. The session option
"session.x64quantprecision" = "1" turns constant int8 weights into uint8 when optimizing, so that a
runtime with it does not saturate either.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.integer import conv_accumulator, matmul_accumulator
from quantscope.arithmetic.params import Array, QuantParams
from quantscope.arithmetic.requantize import Int64Array
from quantscope.arithmetic.window import (
    ConvAttributes,
    check_conv_shapes,
    filters,
    image_slices,
    patches,
    resolve_window,
)
from quantscope.errors import BadConfigError, BadModelError

_DEFAULT = ConvAttributes()


class Saturation(NamedTuple):
    """The effect of 16-bit saturation; both arrays have the accumulator's shape.

    `change` is added to the exact accumulator; `saturated_pairs` counts the pair sums cut off.
    """

    change: Int64Array
    saturated_pairs: NDArray[np.int32]


def conv_saturates(x: Array, w: Array, group: int = 1) -> bool:
    """Tell whether QLinearConv of these types, with weights [M, C/group, ...], can saturate."""
    depthwise = w.shape[1] == 1 and w.shape[0] == group
    return _is_u8s8(x, w) and not depthwise


def conv_saturation(
    x: ArrayLike,
    w: ArrayLike,
    *,
    x_zero_point: int = 0,
    attributes: ConvAttributes = _DEFAULT,
) -> Saturation:
    """Find change and number of saturated pairs per output [N, M, *output]; zeros where exact."""
    x, w = np.asarray(x), np.asarray(w)
    check_conv_shapes(x, w, attributes)
    group = attributes.group
    window = resolve_window(x.shape[2:], w.shape[2:], attributes)
    outputs = (x.shape[0], w.shape[0], *window.output)
    found = Saturation(np.zeros(outputs, np.int64), np.zeros(outputs, np.int32))
    if not conv_saturates(x, w, group):
        return found
    kernels = filters(w, group)
    per_group = w.shape[0] // group
    channels = w.shape[1]
    for part in image_slices(x, window):
        rows = patches(x[part], window, pad_value=int(x_zero_point))
        for g in range(group):
            seen = rows[:, :, g * channels : (g + 1) * channels].reshape(len(rows), -1)
            change, count = _pair_saturation(seen, kernels[g])
            shape = (per_group, -1, *window.output)
            into = slice(g * per_group, (g + 1) * per_group)
            found.change[part, into] = np.moveaxis(change.reshape(shape), 0, 1)
            found.saturated_pairs[part, into] = np.moveaxis(count.reshape(shape), 0, 1)
    return found


def matmul_saturation(a: ArrayLike, b: ArrayLike) -> Saturation:
    """Find change and number of saturated pairs per value of a @ b; zeros where exact."""
    a, b = np.asarray(a), np.asarray(b)
    if min(a.ndim, b.ndim) < 1 or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise BadModelError(
            f"Matrices of shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied."
        )
    left = a if a.ndim > 1 else a[None]
    right = b if b.ndim > 1 else b[:, None]
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*stack, left.shape[-2], right.shape[-1])
    found = Saturation(np.zeros(shape, np.int64), np.zeros(shape, np.int32))
    if _is_u8s8(a, b):
        lefts = np.broadcast_to(left, (*stack, *left.shape[-2:]))
        rights = np.broadcast_to(right, (*stack, *right.shape[-2:]))
        for at in np.ndindex(*stack):
            change, count = _pair_saturation(lefts[at], rights[at].T)
            found.change[at], found.saturated_pairs[at] = change.T, count.T
    # numpy.matmul leaves out the axis that a vector was given above.
    kept = shape if a.ndim > 1 else (*shape[:-2], shape[-1])
    kept = kept if b.ndim > 1 else kept[:-1]
    return Saturation(found.change.reshape(kept), found.saturated_pairs.reshape(kept))


def saturating_conv_accumulator(
    x: ArrayLike,
    w: ArrayLike,
    *,
    x_zero_point: int = 0,
    w_zero_point: ArrayLike = 0,
    bias: ArrayLike | None = None,
    attributes: ConvAttributes = _DEFAULT,
) -> Int64Array:
    """Compute `conv_accumulator` as the AVX2 kernel leaves it; x and w keep their 8-bit types."""
    change = conv_saturation(x, w, x_zero_point=x_zero_point, attributes=attributes).change
    exact = conv_accumulator(
        x,
        w,
        x_zero_point=x_zero_point,
        w_zero_point=w_zero_point,
        bias=bias,
        attributes=attributes,
    )
    return np.asarray(exact + change)


def saturating_matmul_accumulator(
    a: ArrayLike, b: ArrayLike, *, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0
) -> Int64Array:
    """Compute `matmul_accumulator` as the AVX2 kernel leaves it; a and b keep their 8-bit types."""
    change = matmul_saturation(a, b).change
    exact = matmul_accumulator(a, b, a_zero_point=a_zero_point, b_zero_point=b_zero_point)
    return np.asarray(exact + change)


def count_saturations(saturation: Saturation) -> int:
    """Count the pair sums that saturated in all."""
    return int(saturation.saturated_pairs.sum(dtype=np.int64))


def avx2_qlinear_add(
    a: ArrayLike,
    a_params: QuantParams,
    b: ArrayLike,
    b_params: QuantParams,
    y_params: QuantParams,
) -> Array:
    """Compute onnxruntime's AVX2 QLinearAdd of two tensors of one shape (no tensor and number).

    It is float32 with fused multiply-adds, a * ra + (b * rb + c). The output zero-point is in c
    before the rounding, so ties go to even *integers*: one step from `qlinear_add` when it is odd.
    """
    for params in (a_params, b_params, y_params):
        if not params.is_per_tensor:
            raise BadConfigError("QLinearAdd takes one scale per tensor.")
    left, right = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
    # A float32 product is exact in float64: rounding the float64 sum is what an FMA does.
    ratio_a = np.float64(np.float32(a_params.scale / y_params.scale))
    ratio_b = np.float64(np.float32(b_params.scale / y_params.scale))
    offset_b = np.float64(np.float32(ratio_b * float(b_params.zero_point)))
    offset = np.float32(ratio_a * float(a_params.zero_point) + offset_b)
    constant = np.float64(np.float32(y_params.zero_point) - offset)
    inner = (right * ratio_b + constant).astype(np.float32)
    total = (left * ratio_a + inner.astype(np.float64)).astype(np.float32)
    integers = np.clip(np.rint(total), y_params.qmin, y_params.qmax)
    return np.asarray(integers.astype(np.int32).astype(np.asarray(a).dtype))


def _is_u8s8(x: Array, w: Array) -> bool:
    for array in (x, w):
        if array.dtype not in (np.uint8, np.int8):
            raise BadConfigError(f"The AVX2 kernels take uint8 and int8, not {array.dtype}.")
    return x.dtype == np.uint8 and w.dtype == np.int8


def _pair_saturation(rows: Array, kernels: Array) -> tuple[Int64Array, NDArray[np.int32]]:
    """Find change and count [filters, rows] of uint8 rows [rows, K] and int8 kernels [filters, K].

    Pairs that no input can saturate are passed over, which is nearly all of them.
    """
    change = np.zeros((kernels.shape[0], rows.shape[0]), np.int64)
    count = np.zeros(change.shape, np.int32)
    columns = np.ascontiguousarray(rows.T).astype(np.int32)
    weights = kernels.astype(np.int32)
    # A last value without neighbour cannot saturate: 255 * 128 fits 16 bits.
    for k in range(0, rows.shape[1] - 1, 2):
        pair = weights[:, k : k + 2]
        largest = columns[k : k + 2].max(axis=1, initial=0)
        high, low = np.maximum(pair, 0), np.minimum(pair, 0)
        may = np.flatnonzero((high @ largest > 32767) | (low @ largest < -32768))
        if not may.size:
            continue
        # Few inputs are large enough for any of these filters; the others are left out.
        top, bottom = high[may].max(axis=0), low[may].min(axis=0)
        first, second = columns[k], columns[k + 1]
        hot = np.flatnonzero(
            (first * top[0] + second * top[1] > 32767)
            | (first * bottom[0] + second * bottom[1] < -32768)
        )
        sums = np.outer(pair[may, 0], first[hot]) + np.outer(pair[may, 1], second[hot])
        lost = np.clip(sums, -32768, 32767) - sums
        where = np.ix_(may, hot)
        change[where] += lost
        count[where] += lost != 0
    return change, count
