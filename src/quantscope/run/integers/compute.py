"""Compute a layer's output from its integers.

Three arithmetics. *exact*: integer sums, then one rounding of the exact real number, half to even.
*kernel*: onnxruntime's integer kernels where nothing saturates (CPUs with VNNI). *avx2*: the same
where products of uint8 and int8 saturate in pairs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from quantscope.arithmetic import (
    Saturation,
    avx2_qlinear_add,
    conv_accumulator,
    conv_saturation,
    matmul_accumulator,
    matmul_saturation,
    pool_accumulator,
    qlinear_add,
    qlinear_average_pool,
    requantization_multiplier,
    requantize,
)
from quantscope.errors import BadModelError
from quantscope.model import QuantTensor
from quantscope.run.integers.layer import MULTIPLYING, Array, IntegerLayer, accumulator_scale

Arithmetic = Literal["exact", "kernel", "avx2"]
Int64Array = NDArray[np.int64]


def operands_of(spec: IntegerLayer, values: Mapping[str, Array]) -> list[Array]:
    """Give the integers that meet: constants, and `values` by the names of their tensors."""
    return [values[side.tensor.name] if side.data is None else side.data for side in spec.sides]


def accumulate(spec: IntegerLayer, operands: Sequence[Array]) -> Int64Array:
    """Sum products, or a pool's inputs, exactly, zero-points taken off and without the bias."""
    zero_point = spec.sides[0].zero_point
    if spec.kind == "Conv":
        return conv_accumulator(
            operands[0],
            operands[1],
            x_zero_point=zero_point,
            w_zero_point=spec.sides[1].params.zero_point,
            attributes=spec.attributes,
        )
    if spec.kind in ("Gemm", "MatMul"):
        b_zero_point = spec.sides[1].params.zero_point
        return matmul_accumulator(
            operands[0], operands[1], a_zero_point=zero_point, b_zero_point=b_zero_point
        )
    if spec.kind == "AveragePool":
        return pool_sums(spec, operands[0])[0]
    raise BadModelError(f"{spec.layer.name} is an Add: its terms are rescaled, not accumulated")


def pool_sums(spec: IntegerLayer, x: Array) -> tuple[Int64Array, Int64Array]:
    """Sum a pool's windows to [N, C, *output]; also count the values each is divided by."""
    return pool_accumulator(
        x,
        spec.kernel_shape or x.shape[2:],
        x_zero_point=spec.sides[0].zero_point,
        count_include_pad=spec.count_include_pad,
        attributes=spec.attributes,
    )


def saturation_of(spec: IntegerLayer, operands: Sequence[Array]) -> Saturation | None:
    """Find what 16-bit pair sums do to each accumulator; None for types that cannot saturate.

    int8 inputs are met as uint8, shifted by 128: so onnxruntime on x86 runs an int8 layer that it
    fuses without being allowed int8 kernels.
    """
    if spec.kind not in MULTIPLYING or operands[1].dtype != np.int8:
        return None
    x, zero_point = operands[0], spec.sides[0].zero_point
    if x.dtype == np.int8:
        x, zero_point = (x.astype(np.int16) + 128).astype(np.uint8), zero_point + 128
    if x.dtype != np.uint8:
        return None
    if spec.kind == "Conv":
        return conv_saturation(x, operands[1], x_zero_point=zero_point, attributes=spec.attributes)
    return matmul_saturation(x, operands[1])


def multiplier_of(spec: IntegerLayer, output: QuantTensor, precision: Any = "float32") -> Array:
    """Give alpha * sx * sw / sy of a product: a number, or one per output channel."""
    x, w = spec.sides[0].params.scale, spec.sides[1].params.scale.reshape(-1)
    if spec.alpha != 1.0:
        x = np.float32(spec.alpha) * x
    made = requantization_multiplier(x, w, output.params.scale, precision=precision)
    return made if made.size > 1 else made.reshape(())


def along_channels(spec: IntegerLayer, values: Array, ndim: int) -> Array:
    """Shape one value per output channel to broadcast against the output."""
    if np.size(values) == 1:
        return np.reshape(values, ())
    return np.reshape(values, (1, -1) + (1,) * (ndim - 2)) if spec.kind == "Conv" else values


def with_bias(
    spec: IntegerLayer, accumulator: Int64Array, *, whole: bool = False
) -> Int64Array | NDArray[np.float64]:
    """Add the bias; the sums are not whole numbers where it is stated as real ones.

    `whole` rounds such a bias to steps of sx * sw, as onnxruntime does to run an integer kernel.
    """
    if spec.bias is not None:
        return np.asarray(accumulator + along_channels(spec, spec.bias, accumulator.ndim))
    if spec.real_bias is None:
        return accumulator
    if whole:
        rounded = np.rint(spec.real_bias.astype(np.float32) / accumulator_scale(spec))
        steps: Array = np.clip(rounded, -(2.0**31), 2.0**31 - 1).astype(np.int64)
    else:
        steps = spec.real_bias / accumulator_scale(spec, wide=True)
    return np.asarray(accumulator + along_channels(spec, steps, accumulator.ndim))


def compute(
    spec: IntegerLayer,
    operands: Sequence[Array],
    output: QuantTensor | None,
    arithmetic: Arithmetic = "exact",
    *,
    saturation: Saturation | None = None,
    whole_bias: bool | None = None,
) -> Array:
    """Give the output's integers; real numbers (float32) where no quantizer follows.

    `saturation` is what `saturation_of` found for the same operands, if it is to count.
    `whole_bias` rounds a bias stated as real numbers to accumulator steps; None does so in all
    arithmetics but the exact one.
    """
    whole = arithmetic != "exact" if whole_bias is None else whole_bias
    if spec.kind == "Add":
        made = _added(spec, operands, _needed(spec, output), arithmetic)
    elif spec.kind == "AveragePool":
        made = _averaged(spec, operands[0], _needed(spec, output), arithmetic)
    else:
        accumulator = accumulate(spec, operands)
        if saturation is not None:
            accumulator = accumulator + saturation.change
        total = with_bias(spec, accumulator, whole=whole)
        made = _requantized(spec, total, output, arithmetic)
    if output is not None and output.params.ends is not None:
        # The type has more integers than are in use.
        made = np.clip(made, *(made.dtype.type(end) for end in output.params.ends))
    if spec.relu is not None and output is not None:
        # The zero-point stands for the real 0 that a ReLU cuts at.
        made = np.maximum(made, made.dtype.type(int(output.params.zero_point)))
    return made


def _requantized(
    spec: IntegerLayer,
    total: Int64Array | NDArray[np.float64],
    output: QuantTensor | None,
    arithmetic: Arithmetic,
) -> Array:
    if output is None:
        scale = along_channels(spec, accumulator_scale(spec), total.ndim)
        return np.asarray(total.astype(np.float32) * scale, np.float32)
    precision = "float32"
    if arithmetic == "exact":
        # A bias that is a real number leaves nothing to be more exact about than float64.
        precision = "exact" if total.dtype.kind == "i" else "float64"
    return requantize(
        cast("Int64Array", total),
        along_channels(spec, multiplier_of(spec, output, precision), total.ndim),
        int(output.params.zero_point),
        output.params.dtype,
        channel_axis=-1,
    )


def _added(
    spec: IntegerLayer, operands: Sequence[Array], output: QuantTensor, arithmetic: Arithmetic
) -> Array:
    a, b = (side.params for side in spec.sides)
    left, right = operands
    if arithmetic != "exact" and left.shape == right.shape and left.dtype.itemsize == 1:
        return avx2_qlinear_add(left, a, right, b, output.params)
    precision: Any = "exact" if arithmetic == "exact" else "float32"
    return qlinear_add(left, a, right, b, output.params, precision=precision)


def _averaged(spec: IntegerLayer, x: Array, output: QuantTensor, arithmetic: Arithmetic) -> Array:
    made = qlinear_average_pool(
        x,
        spec.sides[0].params,
        output.params,
        spec.kernel_shape or x.shape[2:],
        count_include_pad=spec.count_include_pad,
        attributes=spec.attributes,
        precision="exact" if arithmetic == "exact" else "float32",
    )
    return made if spec.keeps_axes else made.reshape(made.shape[:2])


def _needed(spec: IntegerLayer, output: QuantTensor | None) -> QuantTensor:
    if output is None:
        raise BadModelError(
            f"No quantizer follows {spec.layer.name}, so its result is not an integer; only sums "
            f"of products can be left real"
        )
    return output
