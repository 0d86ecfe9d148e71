"""The integer operators of ONNX and onnxruntime: exact int64 accumulators, one requantization.

An accumulator is sum((x - zx) * (w - zw)) + bias, an integer. What runtimes do next is
y = saturate(round_half_to_even(accumulator * multiplier) + zy), multiplier = sx * sw / sy. The
rounding comes before the zero-point is added, as in ONNX's QuantizeLinear and in onnxruntime (the
reference evaluator of onnx adds first, so its ties go another way when zy is odd).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantscope.arithmetic.params import Array, QuantParams
from quantscope.arithmetic.requantize import (
    Int64Array,
    Precision,
    add_steps,
    int32_overflow_count,
    per_channel,
    requantization_multiplier,
    requantize,
    saturate,
    wrap_int32,
)
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


def conv_accumulator(
    x: ArrayLike,
    w: ArrayLike,
    *,
    x_zero_point: int = 0,
    w_zero_point: ArrayLike = 0,
    bias: ArrayLike | None = None,
    attributes: ConvAttributes = _DEFAULT,
) -> Int64Array:
    """Convolve integers x [N, C, *spatial] with w [M, C/group, *kernel] to int64 [N, M, *output].

    Padding counts as real zero. `w_zero_point` is a number or one per output channel.
    """
    x, w = np.asarray(x), np.asarray(w)
    check_conv_shapes(x, w, attributes)
    for what, values in (("bias", bias), ("weight zero-point", w_zero_point)):
        if values is not None and np.size(values) not in (1, w.shape[0]):
            raise BadModelError(
                f"{np.size(values)} {what} values for {w.shape[0]} output channels."
            )
    window = resolve_window(x.shape[2:], w.shape[2:], attributes)
    centred_w = w.astype(np.int64) - per_channel(w_zero_point, w.ndim, axis=0)
    kernels = filters(centred_w, attributes.group)
    centred = x.astype(np.int64) - int(x_zero_point)
    working = _exact_dtype(centred, np.abs(kernels).sum(axis=2).max(initial=0))
    columns = kernels.transpose(0, 2, 1).astype(working)
    channels, per_group = w.shape[1], w.shape[0] // attributes.group
    out = np.empty((x.shape[0], w.shape[0], *window.output), np.int64)
    for part in image_slices(x, window):
        rows = patches(centred[part].astype(working), window, pad_value=0)
        for g in range(attributes.group):
            seen = rows[:, :, g * channels : (g + 1) * channels].reshape(len(rows), -1)
            sums = (seen @ columns[g]).reshape(-1, *window.output, per_group)
            out[part, g * per_group : (g + 1) * per_group] = np.moveaxis(sums, -1, 1)
    if bias is not None:
        out += per_channel(bias, out.ndim, axis=1)
    return out


def matmul_accumulator(
    a: ArrayLike, b: ArrayLike, *, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0
) -> Int64Array:
    """Multiply integer matrices to int64, with numpy.matmul's shapes.

    Zero-points are numbers, one per row of a, one per column of b, or arrays that broadcast
    against a and b ([..., M, 1] and [..., 1, N]).
    """
    a, b = np.asarray(a), np.asarray(b)
    rows = np.asarray(a_zero_point).astype(np.int64)
    if rows.ndim == 1 and rows.size > 1:
        rows = rows[:, None]
    left = _centre(a, rows)
    right = _centre(b, np.asarray(b_zero_point).astype(np.int64))
    contracted = a.shape[-1] if a.ndim else 0
    working = _exact_dtype(left, int(np.abs(right).max(initial=0)) * contracted)
    try:
        return np.asarray(left.astype(working) @ right.astype(working)).astype(np.int64)
    except ValueError:
        raise BadModelError(
            f"Matrices of shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied."
        ) from None


def conv_integer(
    x: ArrayLike,
    w: ArrayLike,
    *,
    x_zero_point: int = 0,
    w_zero_point: ArrayLike = 0,
    attributes: ConvAttributes = _DEFAULT,
) -> NDArray[np.int32]:
    """Compute ONNX ConvInteger. Overflow wraps, as the specification allows.

    `int32_overflow_count` of `conv_accumulator` says how often.
    """
    return wrap_int32(
        conv_accumulator(
            x, w, x_zero_point=x_zero_point, w_zero_point=w_zero_point, attributes=attributes
        )
    )


def matmul_integer(
    a: ArrayLike, b: ArrayLike, *, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0
) -> NDArray[np.int32]:
    """Compute ONNX MatMulInteger. Overflow wraps, as the specification allows.

    `int32_overflow_count` of `matmul_accumulator` says how often.
    """
    return wrap_int32(
        matmul_accumulator(a, b, a_zero_point=a_zero_point, b_zero_point=b_zero_point)
    )


def qlinear_conv(
    x: ArrayLike,
    x_params: QuantParams,
    w: ArrayLike,
    w_params: QuantParams,
    y_params: QuantParams,
    *,
    bias: ArrayLike | None = None,
    attributes: ConvAttributes = _DEFAULT,
    precision: Precision = "float32",
) -> Array:
    """Compute ONNX QLinearConv: weights per tensor or output channel, int32 bias of scale sx * sw.

    An accumulator beyond int32 is an error here; with `conv_accumulator`, `wrap_int32` and
    `requantize` one sees what a runtime would make of it.
    """
    _need_per_tensor(x_params, "input")
    _need_per_tensor(y_params, "output")
    w = np.asarray(w)
    if not w_params.is_per_tensor and (
        w_params.block_size or w_params.axis not in (0, -w.ndim) or w_params.scale.ndim != 1
    ):
        raise BadConfigError("Weights of QLinearConv have one scale, or one per output channel.")
    accumulator = conv_accumulator(
        x,
        w,
        x_zero_point=int(x_params.zero_point),
        w_zero_point=w_params.zero_point,
        bias=bias,
        attributes=attributes,
    )
    return _requantized(accumulator, x_params.scale, w_params.scale, y_params, precision)


def qlinear_matmul(
    a: ArrayLike,
    a_params: QuantParams,
    b: ArrayLike,
    b_params: QuantParams,
    y_params: QuantParams,
    *,
    precision: Precision = "float32",
) -> Array:
    """Compute ONNX QLinearMatMul.

    Scales are one each, or one per row of a (axis -2) and per column of b (axis -1). Scales that
    also differ between matrices of a stack ([..., M, 1], [..., 1, N]) are block scales whose one
    block covers the contracted axis.
    """
    _need_per_tensor(y_params, "output")
    a, b = np.asarray(a), np.asarray(b)
    a_scale, a_zero_point = _line_params(a_params, a, along=-1)
    b_scale, b_zero_point = _line_params(b_params, b, along=-2)
    accumulator = matmul_accumulator(a, b, a_zero_point=a_zero_point, b_zero_point=b_zero_point)
    if b.ndim == 1 and a_scale.ndim:
        # matmul leaves out the column axis of a vector, and the scales must do as the product.
        a_scale = a_scale[..., 0]
    return _requantized(accumulator, a_scale, b_scale, y_params, precision)


def qgemm(
    a: ArrayLike,
    a_params: QuantParams,
    b: ArrayLike,
    b_params: QuantParams,
    y_params: QuantParams | None,
    *,
    bias: ArrayLike | None = None,
    alpha: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
    precision: Precision = "float32",
) -> Array:
    """Compute onnxruntime's QGemm: y = alpha * (A @ B + C), bias C int32 of scale sa * sb.

    b has one scale, or one per column (the axis of length N, before `trans_b`). Without `y_params`
    the result is float32.
    """
    _need_per_tensor(a_params, "input a")
    left = np.asarray(a).T if trans_a else np.asarray(a)
    right = np.asarray(b).T if trans_b else np.asarray(b)
    if b_params.scale.size not in (1, right.shape[-1]):
        raise BadConfigError(f"{b_params.scale.size} scales for {right.shape[-1]} columns of b.")
    accumulator = matmul_accumulator(
        left, right, a_zero_point=a_params.zero_point, b_zero_point=b_params.zero_point
    )
    if bias is not None:
        accumulator = accumulator + np.asarray(bias).astype(np.int64)
    a_scale = np.float32(alpha) * a_params.scale
    if y_params is None:
        _refuse_overflow(accumulator)
        return np.asarray(accumulator.astype(np.float32) * (a_scale * b_params.scale), np.float32)
    _need_per_tensor(y_params, "output")
    return _requantized(accumulator, a_scale, b_params.scale, y_params, precision)


def qlinear_add(
    a: ArrayLike,
    a_params: QuantParams,
    b: ArrayLike,
    b_params: QuantParams,
    y_params: QuantParams,
    *,
    precision: Precision = "float32",
) -> Array:
    """Compute onnxruntime's QLinearAdd, with NumPy's broadcasting.

    "float32" is the arithmetic of DequantizeLinear, Add, QuantizeLinear in float32. "exact" rounds
    ((a - za) * sa + (b - zb) * sb) / sy once, half to even.
    """
    for params, what in ((a_params, "input a"), (b_params, "input b"), (y_params, "output")):
        _need_per_tensor(params, what)
    left = np.asarray(a).astype(np.int64) - int(a_params.zero_point)
    right = np.asarray(b).astype(np.int64) - int(b_params.zero_point)
    steps = add_steps(
        left, a_params.scale, right, b_params.scale, y_params.scale, precision=precision
    )
    return saturate(steps, int(y_params.zero_point), y_params.dtype)


def _centre(matrix: Array, zero_point: Int64Array) -> Int64Array:
    """Subtract zero-points; raise if they do not broadcast to just the matrix's shape."""
    try:
        centred = matrix.astype(np.int64) - zero_point
    except ValueError:
        centred = zero_point  # not the matrix's shape, so that it is refused below
    if centred.shape != matrix.shape:
        raise BadModelError(
            f"Zero-points of shape {list(zero_point.shape)} do not fit a matrix of shape "
            f"{list(matrix.shape)}."
        )
    return centred


def _exact_dtype(centred: Array, absolute_weight_sum: int) -> Any:
    """Choose the fastest type in which every partial sum is an exact integer, in any order."""
    # float32 counts to 2**24, float64 to 2**53. NumPy multiplies float matrices with BLAS, which
    # is much faster than its loops for int64.
    bound = int(np.abs(centred).max(initial=0)) * int(absolute_weight_sum)
    if bound < 2**24:
        return np.float32
    if bound >= 2**63:
        raise BadModelError("Accumulators could reach 2**63; use integers of fewer bits.")
    return np.float64 if bound < 2**53 else np.int64


def _requantized(
    accumulator: Int64Array,
    x_scale: Array,
    w_scale: Array,
    y_params: QuantParams,
    precision: Precision,
) -> Array:
    _refuse_overflow(accumulator)
    multiplier = requantization_multiplier(x_scale, w_scale, y_params.scale, precision=precision)
    return requantize(accumulator, multiplier, int(y_params.zero_point), y_params.dtype)


def _refuse_overflow(accumulator: Int64Array) -> None:
    count = int32_overflow_count(accumulator)
    if count:
        extreme = int(accumulator.ravel()[np.argmax(np.abs(accumulator))])
        raise BadModelError(
            f"{count} of {accumulator.size} accumulators leave int32 (as far as {extreme}); "
            "use smaller weights or a smaller bias."
        )


def _need_per_tensor(params: QuantParams, what: str) -> None:
    if not params.is_per_tensor and params.scale.size > 1:
        raise BadConfigError(f"The {what} has {params.scale.size} scales; it can have only one.")


def _line_params(params: QuantParams, matrix: Array, *, along: int) -> tuple[Array, Array]:
    """Give scale and zero-point shaped to broadcast; refuse those that change along the sum.

    `along` is the contracted axis, from the end.
    """
    if params.scale.size == 1:
        return params.scale.reshape(()), params.zero_point.reshape(())
    if matrix.ndim == 1:
        raise BadConfigError(f"A vector has one scale, not {params.scale.size}.")
    scale, zero_point = (np.asarray(v) for v in params.expand_to(matrix.shape))
    if params.block_size and params.axis in (along, along + matrix.ndim):
        first: list[slice] = [slice(None)] * matrix.ndim
        first[along] = slice(0, 1)
        if params.scale.shape[along] == 1:
            return scale[tuple(first)], zero_point[tuple(first)]
    if params.block_size or scale.shape[along] != 1:
        raise BadConfigError("The scales of a product may not change along the summed axis.")
    return scale, zero_point
